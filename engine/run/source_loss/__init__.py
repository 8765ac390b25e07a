"""An unreachable, purged or replaced source.

failover      another server continues by GTID: `capture.binlog.position_search` finds the place, and
              `capture.binlog.known_gtids` says which GTIDs the ledger may keep
outage        waits for a source that is away
binlog_off    a source that wrote no binlog for a while
"""
