"""Helpers of the live tests: pipelines, tables, workloads, and the comparison of the lake with the source."""
