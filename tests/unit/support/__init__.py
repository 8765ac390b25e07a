"""Helpers of the unit tests: cells, rows and binlogs, in the bytes of both servers."""
