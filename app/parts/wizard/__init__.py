"""A new pipeline: the frame around its steps, and the steps."""
