"""Reads chunks: the watermarks, the SELECT, the backfill, and redumped parts."""
