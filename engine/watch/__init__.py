"""The watchdog: it posts alerts about lost runners, and restarts runners if the spec asks for it."""
