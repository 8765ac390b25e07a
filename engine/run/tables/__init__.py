"""What becomes of tables: how a pipeline begins with them, how they join and leave, and what schema changes do to them."""
