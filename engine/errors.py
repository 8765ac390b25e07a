"""Every error Tidemark raises on purpose.

Each one says what happened (`message`), what it means for the data (`detail`) and what to do (`hint`); secrets are removed
when it is made. The tree, with the exit code of the command line (docs/command-line.md):

    TidemarkError                     1
    ├── SpecError                     2   the spec or the arguments are wrong
    ├── PreflightError                3   the source, or Spark's workers, do not fulfil what is needed
    │   └── LoginRefusedError         3   the source refuses the login
    ├── SourceLostError               4   the source can no longer be followed
    │   ├── BinlogDamagedError        4   an event of the binlog is not what the server wrote
    │   └── GtidModeError             4   the server does not send this part of the log under its gtid_mode
    ├── PipelineHeldError             5   another runner holds the pipeline
    ├── DifferenceError               6   verification found differences
    ├── MismatchError                 7   ledger and destination do not belong together
    ├── LedgerError                   1   the committed state cannot be read
    ├── TableStoppedError             1   one table cannot go on; the others do
    │   ├── TableGoneError            1   the table is no longer there; it may come again
    │   ├── DecodeError               1   a value or a packet is not what its type promises
    │   │   └── DoubtfulRowsError     1   rows of the log cannot be known; a new copy of the table makes it right
    │   └── DestinationError          1   what is published of one table cannot be read or written
    │       └── MissingFilesError     1   data files are gone that were to be published, or are
    ├── ChunksParkedError             1   some chunks could not be read; all else is copied
    ├── SparkLostError                1   Spark cannot be reached, or has ended the session
    ├── SourceChangedError            1   another server answers at the source's address
    ├── HelperError                   1   a thread beside the pipeline's own met an error; it goes on
    ├── NewerFormatError              1   a file was written by a newer Tidemark
    └── TransientError                1   worth another try: timeouts, deadlocks
        ├── SourceAwayError           1   the source cannot be reached, or broke the connection off
        ├── SchemaChangedError        1   a table is not what it was planned as; the log will tell how it changed
        └── DiskFullError             1   a disk is full; the pipeline waits until there is room
"""

import errno
import re
from collections.abc import Mapping
from typing import Any, TypedDict

from engine.redaction import redact

_FULL = (errno.ENOSPC, errno.EDQUOT)
_FULL_TEXT = re.compile(
    r"(?i)No space left on device|Disk quota exceeded|\b(?:ENOSPC|EDQUOT)\b|\b(?:os error|errno) (?:28|122)\b"
)
"""How Arrow, deltalake (Rust) and Spark (Java) write it: they keep the text of strerror(3), seldom the number."""


def is_disk_full(error: BaseException | None) -> bool:
    """Whether an error, or one of its causes, says that a disk is full or a quota is used up.

    It looks at `errno`, and at the text of errors that have none (deltalake, Arrow, Spark). Causes are `__cause__` and an
    unsuppressed `__context__`, as a traceback shows them. The text of our own errors and of the MySQL driver does not count: a
    server whose disk is full says the same of its own.
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, DiskFullError) or getattr(error, "errno", None) in _FULL:
            return True
        foreign = not isinstance(error, TidemarkError) and not type(error).__module__.startswith("pymysql")
        if foreign and _FULL_TEXT.search(str(error)):
            return True
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return False


class Failure(TypedDict):
    """An error in the journal, in `runner.json` and with `--json`."""

    error: str
    """The class."""
    message: str
    """What happened."""
    detail: str
    """What it means for the data."""
    hint: str
    """What to do."""


class TidemarkError(Exception):
    """Base of all errors raised on purpose.

    message: what happened. detail: what it means for the data. hint: what to do. `exit_code` is the command line's.
    """

    exit_code = 1

    def __init__(self, message: str, *, detail: str = "", hint: str = "") -> None:
        self.message, self.detail, self.hint = redact(message), redact(detail), redact(hint)
        super().__init__(self.message)

    def __str__(self) -> str:
        return "\n".join(part for part in (self.message, self.detail, self.hint) if part)

    def __reduce__(self) -> tuple[object, ...]:
        """Errors cross from Spark's workers to the runner: keep all three parts."""
        return _rebuild, (type(self), self.message, self.detail, self.hint)

    def as_dict(self) -> Failure:
        """For the journal and for `--json`."""
        return {"error": type(self).__name__, "message": self.message, "detail": self.detail, "hint": self.hint}


def _rebuild(kind: type[TidemarkError], message: str, detail: str, hint: str) -> TidemarkError:
    return kind(message, detail=detail, hint=hint)


class SpecError(TidemarkError):
    """The spec file or an argument is wrong; nothing was started."""

    exit_code = 2


class PreflightError(TidemarkError):
    """The source, or Spark's workers, do not fulfil what a pipeline needs."""

    exit_code = 3


class LoginRefusedError(PreflightError):
    """The source answers and refuses the login; in the midst of a run that may be a moment's."""


class SourceLostError(TidemarkError):
    """The source can no longer be followed from the committed position."""

    exit_code = 4


class BinlogDamagedError(SourceLostError):
    """An event's checksum, its size or its compressed content is wrong, also when it is read again."""


class GtidModeError(SourceLostError):
    """Under its gtid_mode (ON, OFF) the server does not send this part of the binlog; under ON_PERMISSIVE it does."""


class PipelineHeldError(TidemarkError):
    """Another runner holds this pipeline."""

    exit_code = 5


class DifferenceError(TidemarkError):
    """Verification found rows that differ."""

    exit_code = 6


class MismatchError(TidemarkError):
    """Ledger and destination do not belong together: one of them was restored, replaced or damaged."""

    exit_code = 7


class LedgerError(TidemarkError):
    """The committed state cannot be read or does not hang together."""


class TableStoppedError(TidemarkError):
    """One table cannot go on; what is published of it stays, and the other tables go on."""


class TableGoneError(TableStoppedError):
    """The table was dropped or renamed; one that comes with its name takes its place."""


class DecodeError(TableStoppedError):
    """Bytes from the server are not what the column's type promises. Never turned into NULL."""


class DoubtfulRowsError(DecodeError):
    """Rows of the log cannot be known, by no fault of the log; a new copy of the table makes it right."""


class DestinationError(TableStoppedError):
    """What is published of one table cannot be read, or cannot be written; the other tables go on."""


class MissingFilesError(DestinationError):
    """Data files are gone: something else than Tidemark removed them."""


class ChunksParkedError(TidemarkError):
    """A run ends with chunks that could not be read, however often they were tried; all else is copied and streamed."""


class SparkLostError(TidemarkError):
    """Spark cannot be reached, or has ended the session; another run goes on from the last commit."""


class SourceChangedError(TidemarkError):
    """Another server answers at the source's address; whether it can be followed is decided before anything is read of it."""


class TransientError(TidemarkError):
    """A failure that another try may cure."""


class SourceAwayError(TransientError):
    """The source cannot be reached, broke the connection off, or is too busy to let anybody in: worth waiting for."""


class SchemaChangedError(TransientError):
    """A table is no longer what it was when its read was planned: what was read is void, and is read again as the log says how."""


class DiskFullError(TransientError):
    """A disk is full, or a quota is used up: the pipeline waits, and goes on by itself when there is room."""


class HelperError(TidemarkError):
    """A thread beside the pipeline's own (monitor, inbox, webhook …) met an error; it goes on and tries again."""


class NewerFormatError(TidemarkError):
    """A file has a format that a newer Tidemark wrote; this one does not read it."""


ERRORS: dict[str, type[TidemarkError]] = {
    kind.__name__: kind
    for kind in (
        TidemarkError,
        SpecError,
        PreflightError,
        LoginRefusedError,
        SourceLostError,
        BinlogDamagedError,
        GtidModeError,
        PipelineHeldError,
        DifferenceError,
        MismatchError,
        LedgerError,
        TableStoppedError,
        TableGoneError,
        DecodeError,
        DoubtfulRowsError,
        DestinationError,
        MissingFilesError,
        ChunksParkedError,
        SparkLostError,
        SourceChangedError,
        TransientError,
        SourceAwayError,
        SchemaChangedError,
        DiskFullError,
        HelperError,
        NewerFormatError,
    )
}


def from_dict(record: Mapping[str, Any]) -> TidemarkError:
    """The inverse of `TidemarkError.as_dict`."""
    kind = ERRORS.get(record["error"], TidemarkError)
    return kind(record["message"], detail=record.get("detail", ""), hint=record.get("hint", ""))
