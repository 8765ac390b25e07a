"""Redumps (docs/operations.md#redumps).

`capture.redump_requests` parses them, `rules` decides whether and how a table can be redumped, `preview` counts the
affected rows, and `executor` runs them: it makes chunks of their ranges, which `capture.chunk.redump_part` reads.
"""
