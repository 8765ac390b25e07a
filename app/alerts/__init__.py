"""The parts of *Alerts*."""
