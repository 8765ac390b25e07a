"""Decodes bytes to Arrow, pure: packets, rows of the binary protocol, binlog events and their row images."""
