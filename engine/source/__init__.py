"""The only code that talks to MySQL and MariaDB: connections, catalog, preflight, positions, watermarks, packet streams."""
