"""Committed state: one file per epoch, from which everything resumes.

`store` creates the file of an epoch: that is the commit. `records` are the epochs, `state` is what they add up to,
such as why a table is stopped. A table of the
destination gets the rows of an epoch by a commit of its own (`destination.delta.log.delta_log`).
"""
