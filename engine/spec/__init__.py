"""The spec: its sections, globs, periods and names."""
