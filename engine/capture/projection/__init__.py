"""Which rows and columns of a table are published, and which columns only as digests."""
