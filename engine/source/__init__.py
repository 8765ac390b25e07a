"""The only code that speaks to MySQL and MariaDB: connections, catalogue, preflight, positions, watermarks, packet streams."""
