"""One thin file per page. A new page also needs an entry in app/parts/places.py (see CONTRIBUTING.md)."""
