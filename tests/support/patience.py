"""How long a test waits for a state that must come."""

PATIENCE_S = 500.0
"""Many times what the slowest machine took. A test never fails because a state comes late, only because it never comes.
"""
PATIENCE_MS = PATIENCE_S * 1000
