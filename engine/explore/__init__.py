"""Queries over published data: SQL over mirrors and change logs, a key's history, a table at an earlier time."""
