"""The runner: one process a pipeline that plans, assigns, commits and publishes."""
