"""The numbers that decide when merges and maintenance happen, and how large the files of mirrors are.

The destination works by them, and the plan estimates costs by them (`plan.merge_costs`).
"""

MERGE_SHARE = 0.25
"""The largest share of the time that merges of one table take."""
CHEAP_BYTES = 1 << 20
"""Merges that write less are never deferred for what they write."""
MERGES_PER_LOOK = 10
"""After so many merges, maintenance looks at a mirror."""
MOST_BYTES = 64 << 20
"""The size of a good file."""
MOST_ROWS = 1_000_000
"""The most rows of a file."""
SMALL_BYTES = 16 << 20
"""Maintenance merges files with less than this."""
COPIED = 4
"""Copy on write has files that are so many times smaller, because a merge writes each file that it touches again."""
FEWEST_FILES = 8
"""Small files are merged when there are so many of a size class; the next class is so many times larger."""
LEAST_BYTES = 64 << 10
"""The first size class has files of less than this."""
GARBAGE = 0.2
"""A file is rewritten when so much of it is deleted."""
