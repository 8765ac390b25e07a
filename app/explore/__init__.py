"""The parts of *Explore*."""
