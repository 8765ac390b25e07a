"""Redumps: what is asked for, whether and how a table can be redumped, what would be read, and the execution."""
