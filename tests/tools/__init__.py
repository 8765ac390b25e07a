"""Programs that are not tests: the demo and the benchmarks."""
