"""Files are compacted and vacuumed."""
