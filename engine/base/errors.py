"""Every error that Tidemark raises on purpose.

Each one has three parts: what happened (`message`), what that means for the data (`detail`) and what to do (`hint`).
Secrets are removed on creation. The tree, with the command line's exit codes (docs/command-line.md):

    TidemarkError                     1
    ├── SpecError                     2   the spec or an argument is wrong
    ├── PreflightError                3   the source or Spark's workers do not meet the requirements
    │   └── AccountRefusedError       3   the source answers, but refuses the account
    │       ├── LoginRefusedError     3   the source refuses the login
    │       └── PrivilegesMissingError 3  the account lacks privileges on the source
    ├── SourceLostError               4   the source can no longer be streamed from the committed position
    │   ├── BinlogDamagedError        4   an event of the binlog is damaged
    │   ├── BinlogOffError            4   the server writes no binlog, or wrote none for a while
    │   └── GtidModeError             4   the server's gtid_mode keeps it from sending this part of the binlog
    ├── PipelineHeldError             5   another runner holds the pipeline
    ├── DifferencesFoundError         6   an audit or a verification found differences
    ├── MismatchError                 7   ledger and destination do not belong together
    ├── NotComparedError              8   a verification could not compare a table, or a part of one
    ├── LedgerError                   1   the committed state cannot be read
    ├── TableStoppedError             1   one table cannot continue; the others do
    │   ├── TablesStoppedError        1   a run ended as asked, and tables had stopped
    │   ├── TableGoneError            1   the table no longer exists; it may come back
    │   ├── IncompatibleColumnsError 1  a change log cannot get the table's new columns; a new one can
    │   ├── DecodeError               1   a value or a packet is not what its type promises
    │   │   └── DoubtfulRowsError     1   rows of the binlog are in doubt; a resnapshot repairs the table
    │   └── DestinationError          1   one table's destination cannot be read or written
    │       └── MissingFilesError     1   data files, published or about to be, are gone
    ├── ChunksParkedError             1   some chunks could not be read; everything else is copied
    ├── SparkLostError                1   Spark cannot be reached, or has ended the session
    ├── SourceChangedError            1   another server answers at the source's address
    ├── HelperError                   1   a helper thread of the runner met an error; it continues
    ├── NewerFormatError              1   a file was written by a newer Tidemark
    └── TransientError                1   worth a retry: timeouts, deadlocks
        ├── SourceAwayError           1   the source cannot be reached, or broke the connection
        ├── SchemaChangedError        1   a table was altered after its plan was made; the binlog will show how
        └── WriteOutageError          1   nothing can be written now; the pipeline waits until it can
            ├── DiskFullError         1   a disk takes no files
            ├── StoreUnreachableError 1   the store of the destination does not answer
            └── StoreRefusedError     1   the store of the destination refuses the credentials
"""

import errno
import itertools
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from engine.base.redaction import redact
from engine.base.store_errors import StoreAccessError, StoreAwayError
from engine.base.wording import listing, shell_word

_MOST_TABLES = 20
"""The most tables that a hint names."""
_FULL = (errno.ENOSPC, errno.EDQUOT)
_FULL_TEXT = re.compile(
    r"(?i)No space left on device|Disk quota exceeded|\b(?:ENOSPC|EDQUOT)\b|\b(?:os error|errno) (?:28|122)\b"
)
"""The texts of Arrow, deltalake (Rust) and Spark (Java): they contain the text of strerror(3), rarely the number."""
_READ_ONLY = (errno.EROFS,)
_READ_ONLY_TEXT = re.compile(r"(?i)Read-only file system|\bEROFS\b|\b(?:os error|errno) 30\b")
_AWAY_TEXT = re.compile(r"The store does not answer: ")
_REFUSED_TEXT = re.compile(r"The store refuses the credentials: |No credentials for the store are found: ")
_FORBIDDEN = (errno.EACCES, errno.EPERM)
_FORBIDDEN_TEXT = re.compile(r"(?i)Permission denied|Operation not permitted|\b(?:os error|errno) (?:1|13)\b")


def is_disk_full(error: BaseException | None) -> bool:
    """Whether an error, or one of its causes, says that a disk is full or a quota is used up."""
    return _says(error, _FULL, _FULL_TEXT, DiskFullError)


def is_read_only(error: BaseException | None) -> bool:
    """Whether an error, or one of its causes, says that a file system is read-only."""
    return _says(error, _READ_ONLY, _READ_ONLY_TEXT)


def is_forbidden(error: BaseException | None) -> bool:
    """Whether an error, or one of its causes, says that the user may not read or write a file."""
    return _says(error, _FORBIDDEN, _FORBIDDEN_TEXT)


def trace_ending(text: str) -> str:
    """The last meaningful line of a Python traceback in a text, such as a Spark worker's.

    A text without a traceback stays as it is.
    """
    _, heading, trace = text.rpartition("Traceback (most recent call last):")
    if not heading:
        return text
    lines = itertools.takewhile(lambda line: not line.startswith("\tat "), trace.splitlines())
    return next((line.strip() for line in reversed(list(lines)) if line.strip()), text)


def is_store_away(error: BaseException | None) -> bool:
    """Whether an error, or one of its causes, says that a store does not answer."""
    return _says(error, (), _AWAY_TEXT, StoreUnreachableError, StoreAwayError)


def is_store_refused(error: BaseException | None) -> bool:
    """Whether an error, or one of its causes, says that a store refuses the credentials."""
    return _says(error, (), _REFUSED_TEXT, StoreRefusedError, StoreAccessError)


def is_unwritable(error: BaseException | None) -> bool:
    """Whether a place takes no files now: a disk that is full or read-only, a store that cannot be used."""
    return is_disk_full(error) or is_read_only(error) or is_store_away(error) or is_store_refused(error)


def _says(
    error: BaseException | None,
    numbers: Collection[int],
    text: re.Pattern[str],
    *kinds: type[BaseException],
) -> bool:
    """Whether an error, or one of its causes, has one of these numbers, such a text, or one of these classes.

    Checks `errno`, and the text of errors without one (deltalake, Arrow, Spark). Causes are `__cause__` and an
    unsuppressed `__context__`, as in a traceback. The texts of our own errors and of the MySQL driver do not count:
    they may be about the server's disk.
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, kinds) or getattr(error, "errno", None) in numbers:
            return True
        foreign = not isinstance(error, TidemarkError) and not type(error).__module__.startswith("pymysql")
        if foreign and text.search(str(error)):
            return True
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return False


@dataclass(frozen=True)
class ErrorRecord:
    """What files keep of an error: the ledger, the journal and `runner.json`."""

    error: str = ""
    """The class."""
    message: str = ""
    """What happened."""
    detail: str = ""
    """What it means for the data."""
    hint: str = ""
    """What to do."""
    resnapshots: tuple[str, ...] = ()
    """The tables that the hint advises to resnapshot before the next run; none if it is about all, or about none."""

    @classmethod
    def from_json(cls, value: object) -> Self | None:
        """The error in a file, or a sentence, as earlier versions wrote; None without one."""
        if not isinstance(value, Mapping):
            return cls(message=value) if isinstance(value, str) and value else None
        if not value:
            return None
        error, message, detail, hint = (str(value.get(one) or "") for one in ("error", "message", "detail", "hint"))
        return cls(error, message, detail, hint, tuple(map(str, value.get("resnapshots") or ())))

    def to_json(self) -> dict[str, Any]:
        """The inverse of `from_json`."""
        parts = {"error": self.error, "message": self.message, "detail": self.detail, "hint": self.hint}
        return {**parts, "resnapshots": list(self.resnapshots)} if self.resnapshots else parts

    def to_error(self) -> "TidemarkError":
        """The error, of its class if this version knows it."""
        kind = ERRORS.get(self.error, TidemarkError)
        return kind(self.message, detail=self.detail, hint=self.hint, resnapshots=self.resnapshots)


class TidemarkError(Exception):
    """Base of all errors raised on purpose.

    message: what happened. detail: what it means for the data. hint: what to do. resnapshots: the tables that the hint
    advises to resnapshot before the next run. `exit_code` is the command line's.
    """

    exit_code = 1

    def __init__(self, message: str, *, detail: str = "", hint: str = "", resnapshots: Iterable[str] = ()) -> None:
        self.message = redact(message)
        self.detail = redact(detail)
        self.hint = redact(hint)
        self.resnapshots = tuple(resnapshots)
        super().__init__(self.message)

    def __str__(self) -> str:
        return "\n".join(part for part in (self.message, self.detail, self.hint) if part)

    def __reduce__(self) -> tuple[object, ...]:
        """Errors travel from Spark's workers to the runner: keep all parts."""
        return _rebuild, (type(self), self.message, self.detail, self.hint, self.resnapshots)

    def to_record(self) -> ErrorRecord:
        """What files keep of it."""
        return ErrorRecord(type(self).__name__, self.message, self.detail, self.hint, self.resnapshots)

    def as_dict(self) -> dict[str, Any]:
        """The JSON for `--json`."""
        return self.to_record().to_json()


def _rebuild(
    kind: type[TidemarkError], message: str, detail: str, hint: str, resnapshots: tuple[str, ...]
) -> TidemarkError:
    return kind(message, detail=detail, hint=hint, resnapshots=resnapshots)


class SpecError(TidemarkError):
    """The spec file or an argument is wrong; nothing was started."""

    exit_code = 2


class PreflightError(TidemarkError):
    """The source or Spark's workers do not meet the pipeline's requirements."""

    exit_code = 3


class AccountRefusedError(PreflightError):
    """The source answers, but refuses the account. During a run this may be temporary."""


class LoginRefusedError(AccountRefusedError):
    """The source refuses the login."""


class PrivilegesMissingError(AccountRefusedError):
    """The source refuses a statement: the account lacks a privilege, or lost it during a run."""


class SourceLostError(TidemarkError):
    """The source can no longer be streamed from the committed position."""

    exit_code = 4


class BinlogDamagedError(SourceLostError):
    """An event has a wrong checksum, size or compressed content, even on a second read."""


class BinlogOffError(SourceLostError):
    """The server writes no binlog, or wrote none for a while: changes of that time are nowhere."""


class GtidModeError(SourceLostError):
    """With its gtid_mode (ON, OFF) the server does not send this part of the binlog; with ON_PERMISSIVE it does."""


class PipelineHeldError(TidemarkError):
    """Another runner holds this pipeline."""

    exit_code = 5


class DifferencesFoundError(TidemarkError):
    """An audit or a verification found that published data differs from the source."""

    exit_code = 6


class MismatchError(TidemarkError):
    """Ledger and destination do not belong together: one of them was restored, replaced or damaged."""

    exit_code = 7


class NotComparedError(TidemarkError):
    """A verification could not compare a table, or a part of one. It found no difference in what it compared."""

    exit_code = 8


class LedgerError(TidemarkError):
    """The committed state cannot be read or is inconsistent."""


class TableStoppedError(TidemarkError):
    """One table cannot continue. Its published data stays, and the other tables continue."""


class TablesStoppedError(TableStoppedError):
    """Tables are stopped at the end of a run, which otherwise ended as asked."""


class TableGoneError(TableStoppedError):
    """The table was dropped or renamed, or its tablespace was discarded. A new table of the same name replaces it."""


class IncompatibleColumnsError(TableStoppedError):
    """A change log cannot get the table's new columns. A resnapshot begins a new generation of it."""


class DecodeError(TableStoppedError):
    """Bytes from the server are not what the column's type promises. Never turned into NULL."""


class DoubtfulRowsError(DecodeError):
    """Rows of the binlog are in doubt, though it is not damaged. A resnapshot repairs the table."""


class DestinationError(TableStoppedError):
    """The published data of one table cannot be read or written. The other tables continue."""


class MissingFilesError(DestinationError):
    """Data files are gone: something other than Tidemark removed them."""


class ChunksParkedError(TidemarkError):
    """A run ended with chunks that could not be read after all retries. Everything else is copied and streamed."""


class SparkLostError(TidemarkError):
    """Spark cannot be reached, or has ended the session. The next run continues from the last commit."""


class SourceChangedError(TidemarkError):
    """Another server answers at the source's address. Its history is checked before anything else is read from it."""


class TransientError(TidemarkError):
    """A failure that a retry may resolve."""


class SourceAwayError(TransientError):
    """The source cannot be reached, broke the connection, or is too busy to accept one: worth waiting for."""


class ConnectionLimitError(SourceAwayError):
    """The user has all the connections that its account allows."""


class OnePhaseCommitError(TidemarkError):
    """MariaDB commits transactions in one phase. What was read at its snapshots is read again, with other watermarks.

    A run continues by itself.
    """


class SchemaChangedError(TransientError):
    """A table was altered after its read was planned. The rows are discarded, and read again with the new columns."""


class WriteOutageError(TransientError):
    """Nothing can be written now. The pipeline waits, and continues by itself when it can."""


class DiskFullError(WriteOutageError):
    """A disk is full or read-only, a quota is used up, or a folder may not be written."""


class StoreUnreachableError(WriteOutageError):
    """The store of the destination does not answer."""


class StoreRefusedError(WriteOutageError):
    """The store of the destination refuses the credentials: they are wrong, have expired or lack a permission."""


class HelperError(TidemarkError):
    """A helper thread of the runner (monitor, inbox, webhook …) met an error. It continues and retries."""


class NewerFormatError(TidemarkError):
    """A newer Tidemark wrote the file in a format that this one does not read."""


ERRORS: dict[str, type[TidemarkError]] = {
    kind.__name__: kind
    for kind in (
        TidemarkError,
        SpecError,
        PreflightError,
        LoginRefusedError,
        PrivilegesMissingError,
        SourceLostError,
        BinlogDamagedError,
        BinlogOffError,
        GtidModeError,
        PipelineHeldError,
        DifferencesFoundError,
        MismatchError,
        NotComparedError,
        LedgerError,
        TableStoppedError,
        TableGoneError,
        IncompatibleColumnsError,
        DecodeError,
        DoubtfulRowsError,
        DestinationError,
        MissingFilesError,
        ChunksParkedError,
        SparkLostError,
        SourceChangedError,
        TransientError,
        SourceAwayError,
        ConnectionLimitError,
        SchemaChangedError,
        WriteOutageError,
        DiskFullError,
        StoreUnreachableError,
        StoreRefusedError,
        HelperError,
        NewerFormatError,
    )
}


def printed_error(printed: object) -> TidemarkError:
    """The error that another process printed with `--json`."""
    return (ErrorRecord.from_json(printed) or ErrorRecord()).to_error()


COMES_BACK = "is copied and streamed"
"""In the hint about a table that its source does not have now: it continues by itself if it appears again."""
_WAYS_BACK = ("tidemark redump", "tidemark remove-table", COMES_BACK)
"""What a hint says of how a stopped table continues."""


def stop_of(error: TidemarkError, table: str) -> ErrorRecord:
    """The error that stops a table, for the ledger.

    Its hint ends with how the table continues, if it does not say so itself.
    """
    hint = error.hint.replace("--table …", f"--table {shell_word(table)}")
    if hint and hint[-1].isalnum() and "tidemark" not in hint:
        hint += "."
    if not any(way in hint for way in _WAYS_BACK):
        hint = f"{hint} Then resnapshot it: tidemark redump SPEC --table {shell_word(table)}".strip()
    return replace(error.to_record(), hint=redact(hint))


def if_captured(table: str) -> str:
    """How a table continues, or leaves: the end of a hint that may come before the pipeline has the table.

    table: its name; "…" if that is not known, which `stop_of` replaces.
    """
    word = table if table == "…" else shell_word(table)
    return (
        f"If the pipeline has the table: tidemark redump SPEC --table {word} then resnapshots it, "
        f"tidemark remove-table SPEC --table {word} excludes it"
    )


def unknown_tables(unknown: Iterable[str], pipeline_tables: Collection[str], detail: str = "") -> SpecError:
    """The error about tables that a pipeline does not have. detail: what it means for the data."""
    names = sorted(pipeline_tables)
    hint = f"Its tables are {listing(names, _MOST_TABLES)}."
    return SpecError(
        f"The pipeline has no table {', '.join(unknown)}.",
        detail=detail,
        hint=hint if names else "It has no table yet: wait until it has planned one.",
    )
