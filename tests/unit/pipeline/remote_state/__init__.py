"""Tests of a pipeline's state in a bucket, of which a folder takes the place."""
