"""One thin file per page. A new page also needs an entry in app/common/places.py (see CONTRIBUTING.md)."""
