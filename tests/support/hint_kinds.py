"""Kinds of hints that need no trial."""

REPORT = "report it: it should not happen"
WAIT = "nothing to do but wait, or try again: Tidemark retries"
INPUT = "give another setting or argument, which the message names"
OUTSIDE = "repair something outside of Tidemark: a file, a disk, a machine, a server's configuration"
UNTRIED = "not tried yet"
MOST_UNTRIED = 0
"""None is left, and none is added."""

Trials = str | tuple[str, ...]
"""A kind, or tests as `file::function`."""
