"""Tidemark's engine: copies tables from MySQL and MariaDB into a lakehouse, and keeps them equal.

It copies in parallel chunks, and follows the binlog.
"""

__version__ = "0.1.0"
