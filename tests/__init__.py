"""Tidemark's tests: unit (no server, no Spark), live, faults, browser and bench (real servers, real Spark)."""
