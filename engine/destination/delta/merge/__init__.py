"""Changes become the mirror."""
