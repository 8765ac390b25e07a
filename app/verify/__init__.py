"""The parts of *Verify*."""
