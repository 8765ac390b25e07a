"""Positions in the source's binlog, and the distance to its end.

A position lies between two transactions: a file, an offset in it and, if known, the GTID set of all transactions before
it. Positions of one server are ordered by file number and offset.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.source.connect import Connection, Server, binlog_off, query

FIRST_OFFSET = 4
"""The offset of the first event in every binlog file."""


@dataclass(frozen=True)
class Position:
    """A place in the binlog."""

    file: str
    offset: int
    gtids: str | None = None
    """The GTIDs of all transactions before it, as the server writes them; None if unknown."""
    born: int | None = field(default=None, compare=False)
    """The time in the file's FORMAT_DESCRIPTION event, in seconds since 1970; None if unknown. It distinguishes the
    file from one of the same name that a restored or reset server created later."""

    @property
    def order(self) -> tuple[int, int]:
        """Sort key for positions of one server."""
        return file_number(self.file), self.offset

    def __str__(self) -> str:
        return f"{self.file}:{self.offset}"

    def as_dict(self) -> dict[str, Any]:
        """The record for the ledger."""
        return {"file": self.file, "offset": self.offset, "gtids": self.gtids, "born": self.born}


def position_from_dict(record: Mapping[str, Any]) -> Position:
    """The inverse of `Position.as_dict`."""
    return Position(record["file"], int(record["offset"]), record.get("gtids"), record.get("born"))


def position_from_text(text: str) -> Position:
    """The inverse of `str(Position)`. Raises ValueError for any other text."""
    file, _, offset = text.rpartition(":")
    return Position(file, int(offset))


def file_number(file: str) -> int:
    """The number at the end of a binlog file's name."""
    return int(file.rpartition(".")[2])


def file_of(number: int, like: str) -> str:
    """The name of the binlog file with a number. like: the name of another file of the same binlog."""
    prefix, _, digits = like.rpartition(".")
    return f"{prefix}.{number:0{len(digits)}d}"


def latest(a: Position, b: Position) -> Position:
    """The later of two positions of one server."""
    return a if a.order >= b.order else b


def current(connection: Connection, server: Server) -> Position:
    """The current end of the binlog: suitable as a high watermark, never as a low one (docs/correctness.md).

    Raises BinlogOffError if there is no binlog.
    """
    rows = query(connection, server.binlog_status)
    if not rows:
        raise binlog_off()
    return Position(rows[0]["File"], int(rows[0]["Position"]))


_ENCRYPTION_HEADER = 512
"""Bytes before the first event of a file that MySQL encrypts. Positions do not count them (MySQL source,
rpl_log_encryption.h)."""


def binlog_files(connection: Connection) -> dict[str, int]:
    """The server's binlog files, oldest first, with their bytes of events. Raises BinlogOffError if there is no binlog.

    The bytes measure how much there is to read. They are no position: those come from events and from the heads of
    files.
    """
    return {
        row["Log_name"]: int(row["File_size"]) - (_ENCRYPTION_HEADER if row.get("Encrypted") == "Yes" else 0)
        for row in query(connection, "SHOW BINARY LOGS")
    }


def bytes_between(files: dict[str, int], start: Position, end: Position) -> int:
    """Bytes of binlog from `start` to `end`; 0 if `end` is not later."""
    if end.order <= start.order:
        return 0
    if start.file == end.file:
        return end.offset - start.offset
    low, high = file_number(start.file), file_number(end.file)
    between = sum(size for name, size in files.items() if low < file_number(name) < high)
    return max(files.get(start.file, 0) - start.offset, 0) + between + end.offset


@dataclass(frozen=True)
class Retention:
    """When the server purges binlog files: seconds after a file is closed, and bytes in total. None: never."""

    seconds: float | None
    total_bytes: int | None
    file_bytes: int


def retention(connection: Connection) -> Retention:
    """The server's settings. A due file is purged only when a newer one is begun, so never earlier."""
    rows = query(connection, _RETENTION)
    values = {row["Variable_name"]: row["Value"] for row in rows}
    # On MariaDB the two are one setting; MySQL has only the first.
    seconds = float(values.get("binlog_expire_logs_seconds", 0)) or float(values.get("expire_logs_days", 0)) * 86400
    if values.get("binlog_expire_logs_auto_purge", "ON").upper() in ("OFF", "0"):
        seconds = 0.0
    total = int(values.get("max_binlog_total_size", 0))
    return Retention(seconds or None, total or None, int(values.get("max_binlog_size", 1 << 30)))


_RETENTION = (
    "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('binlog_expire_logs_seconds', 'expire_logs_days', "
    "'binlog_expire_logs_auto_purge', 'max_binlog_total_size', 'max_binlog_size')"
)
