"""Other formats of a Delta table: metadata over the same data files, published after each Delta commit.

`version_changes` reads what a version changes from the Delta log, `iceberg_copy` keeps one table's Iceberg metadata in
step with it (`destination.iceberg` writes it, and tells a catalog), and `format_publisher` has the threads that do so
for all tables.
"""
