"""Benchmarks: how near the pipeline comes to what the server can send, as ratios measured in one run."""
