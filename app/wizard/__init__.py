"""The new-pipeline wizard: the frame and the steps."""
