"""Pure functions. No Streamlit."""
