"""The parts of *Pipelines*."""
