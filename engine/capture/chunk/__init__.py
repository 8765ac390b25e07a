"""Reading chunks: the watermarks, the SELECT, the backfill, and what a redump reads again."""
