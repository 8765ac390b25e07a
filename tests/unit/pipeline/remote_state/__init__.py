"""Tests of a pipeline's state in a bucket, with a folder in place of the bucket."""
