"""Positions in the source's binlog, and how far away its end is.

A position lies between two transactions: a file, an offset in it, and, where it is known, the GTID set of all
transactions before it. Positions of one server are ordered by file number and offset.
"""

from dataclasses import dataclass
from typing import Any

from engine.errors import PreflightError, SourceLostError
from engine.source.connect import Connection, Server, query

FIRST_OFFSET = 4
"""Where the first event of every binlog file begins."""


@dataclass(frozen=True)
class Position:
    """A place in the binlog. gtids: the set of the transactions before it as the server writes it, None when unknown."""

    file: str
    offset: int
    gtids: str | None = None

    @property
    def order(self) -> tuple[int, int]:
        """Compares positions of one server."""
        return file_number(self.file), self.offset

    def __str__(self) -> str:
        return f"{self.file}:{self.offset}"

    def as_dict(self) -> dict[str, Any]:
        """For the ledger."""
        return {"file": self.file, "offset": self.offset, "gtids": self.gtids}


def position_from_dict(record: dict[str, Any]) -> Position:
    """The inverse of `Position.as_dict`."""
    return Position(record["file"], int(record["offset"]), record.get("gtids"))


def file_number(file: str) -> int:
    """The number at the end of a binlog file's name."""
    return int(file.rpartition(".")[2])


def latest(a: Position, b: Position) -> Position:
    """The later of two positions of one server."""
    return a if a.order >= b.order else b


def current(connection: Connection, server: Server) -> Position:
    """The end of the binlog now: a high watermark, never a low one (DESIGN 5). Raises PreflightError without a binlog."""
    rows = query(connection, server.binlog_status)
    if not rows:
        raise PreflightError(
            "The server writes no binlog.",
            detail="Without one, changes cannot be followed.",
            hint="Start the server with log_bin.",
        )
    return Position(rows[0]["File"], int(rows[0]["Position"]))


def binlog_files(connection: Connection) -> dict[str, int]:
    """The binlog files that the server still has, oldest first, with their sizes in bytes."""
    return {row["Log_name"]: int(row["File_size"]) for row in query(connection, "SHOW BINARY LOGS")}


def bytes_between(files: dict[str, int], start: Position, end: Position) -> int:
    """Bytes of binlog from `start` to `end`; 0 when `end` is not later."""
    if end.order <= start.order:
        return 0
    if start.file == end.file:
        return end.offset - start.offset
    low, high = file_number(start.file), file_number(end.file)
    between = sum(size for name, size in files.items() if low < file_number(name) < high)
    return max(files.get(start.file, 0) - start.offset, 0) + between + end.offset


def check_available(connection: Connection, position: Position) -> None:
    """Raises SourceLostError when the binlog from `position` on is no longer there, or never was."""
    files = binlog_files(connection)
    size = files.get(position.file)
    if size is None:
        raise SourceLostError(
            f"The source no longer has the binlog file of the committed position {position}.",
            detail=f"It has {', '.join(list(files)[:1] + list(files)[-1:])}. Changes after the position are lost to "
            "Tidemark, or this is another server; what is published is right up to the position.",
            hint="Copy the tables again into a new destination. To avoid it, raise binlog_expire_logs_seconds.",
        )
    if size < position.offset:
        raise SourceLostError(
            f"The committed position {position} lies behind the end of that file ({size} bytes).",
            detail="The server was restored or reset: it does not hold the changes that are published already.",
            hint="Copy the tables again into a new destination.",
        )


def retention_s(connection: Connection) -> float | None:
    """Seconds after which the server purges a binlog file; None when it never does."""
    variable = "binlog_expire_logs_seconds"
    rows = query(
        connection, "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('binlog_expire_logs_seconds', 'expire_logs_days')"
    )
    values = {row["Variable_name"]: float(row["Value"]) for row in rows}
    seconds = values.get(variable, 0.0) or values.get("expire_logs_days", 0.0) * 86400
    return seconds or None
