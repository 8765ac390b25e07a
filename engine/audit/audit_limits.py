"""What the package mysql-replication (1.0.17) decodes wrongly or not at all, each with its proof.

Such values are not compared; the audit counts them. `tests/live/test_audit_limits.py` shows each proof on a real
server: if the package is fixed, that test fails, and the entry can be deleted.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limit:
    """One thing that the package cannot decode."""

    name: str
    what: str
    """Which values or events, as the audit prints it."""
    value: str
    """An example."""
    server: str
    """What the server says."""
    library: str
    """What the package says."""


LIMITS = {
    limit.name: limit
    for limit in (
        Limit("year_zero", "YEAR 0", "0", "0000", "1900"),
        Limit("negative_time", "negative TIME with a fraction", "-01:02:03.2", "-01:02:03.2", "-01:02:03.8"),
        Limit(
            "date_out_of_range",
            "DATE and DATETIME of year 0, and partly zero dates",
            "0000-01-01",
            "0000-01-01",
            "None",
        ),
        Limit("zero_timestamp", "TIMESTAMP zero", "0000-00-00 00:00:00", "0000-00-00 00:00:00", "1970-01-01 00:00:00"),
        Limit("labels", "ENUM and SET whose labels are not UTF-8", "'é' in latin1", "é", "an empty text"),
        Limit("json_null", "whether a JSON is the literal null or SQL NULL", "null", "null", "None, as for NULL"),
        Limit(
            "json_opaque",
            "JSON with dates, times or binaries in it",
            "CAST(TIME'-10:11:12' AS JSON)",
            '"-10:11:12.000000"',
            "10:11:12",
        ),
        Limit("text", "texts that the server does not convert to UTF-8", "invalid bytes", "an error", "the bytes"),
        Limit("failed_event", "row events in which the package fails", "DATE 2024-02-30", "2024-02-30", "ValueError"),
        Limit("column_type", "tables with VECTOR or COMPRESSED columns", "VECTOR(2)", "[1, 2]", "NotImplementedError"),
        Limit(
            "compressed",
            "compressed transactions (MySQL) and compressed row events (MariaDB)",
            "binlog_transaction_compression = ON, or log_bin_compress = ON",
            "the rows",
            "NotImplementedEvent",
        ),
        Limit(
            "partial_json",
            "partial JSON updates",
            "binlog_row_value_options = PARTIAL_JSON",
            "the whole document",
            "one difference",
        ),
        Limit(
            "prepared",
            "XA transactions that were prepared before the audited range",
            "XA COMMIT 'x'",
            "the rows at XA PREPARE",
            "the rows at XA PREPARE",
        ),
        Limit("tagged_gtid", "tagged GTIDs", "GTID_NEXT = 'AUTOMATIC:tag'", "uuid:tag:1", "NotImplementedEvent"),
    )
}
