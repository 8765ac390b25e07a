"""Pure functions that turn the dataclasses of `engine.history` into text, tiles and figures. No Streamlit."""
