"""Tidemark's engine: MySQL and MariaDB tables into a lakehouse, copied in parallel chunks and kept equal from the binlog."""

__version__ = "0.1.0"
