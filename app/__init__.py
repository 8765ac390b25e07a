"""The console: `screens` (a thin page each), a folder for the parts of each page, and `common` for what they share.

Each folder's `view` has pure functions: what the parts show. The parts use Streamlit.
"""
