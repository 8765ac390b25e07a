"""What becomes of tables: how a pipeline begins with them, how they join and leave, and what schema changes do to them.

A DDL: `capture.binlog.statements` finds it, `alterations` finds the tables it affects, `ddl` reads its text, and
`schema_change` decides what happens to the table.
"""
