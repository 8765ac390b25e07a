"""A Delta table per mirror and per change log: written, merged, maintained and read back."""
