"""An unreachable, purged or replaced source."""
