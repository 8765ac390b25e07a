"""How a run begins, holds its pipeline and ends."""
