"""What the console shows: pure functions from `engine.history`'s dataclasses to words, tiles, figures. No Streamlit."""
