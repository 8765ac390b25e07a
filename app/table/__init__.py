"""The parts of *Table*."""
