"""What a run does to copy tables.

It decides which chunk is read next, by whom, how fast, and what becomes of a read that fails.
"""
