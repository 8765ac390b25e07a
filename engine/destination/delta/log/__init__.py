"""The Delta log: read, written, checked."""
