"""Reads ranges of the binlog: events, transactions, statements, row changes, and which of them are published."""
