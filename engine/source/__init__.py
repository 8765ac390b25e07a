"""The only code that talks to MySQL and MariaDB.

It has connections, catalog, preflight, positions, watermarks and packet streams.
"""
