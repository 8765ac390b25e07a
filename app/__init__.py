"""The console: screens (thin pages), parts (Streamlit pieces), view (pure functions: what the pieces show)."""
