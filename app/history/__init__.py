"""The parts of *History*."""
