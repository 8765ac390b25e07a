"""Other formats of a Delta table: metadata over the same data files, published after each Delta commit.

`version_changes` reads what a version changes from the Delta log, and `iceberg_copy` keeps one table's Iceberg metadata
in step with it (`destination.iceberg` writes it). `registration` commits the table to a catalog. `format_publisher` has
the threads that do either for all tables.
"""
