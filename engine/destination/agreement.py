"""Checks that a ledger and a destination belong together, before anything is written.

The ledger counts epochs and records what each table's destination is known to have. The destination has the numbers of
its last epochs, in the transaction identifiers of its tables, and the terms of the runners that wrote there
(`destination.fence`). If someone restores a copy of either,

    the ledger is older       the destination has epochs that the ledger lacks, or an unknown runner wrote to it. New
                              epochs would get numbers that the destination has, and be taken for applied
    the destination is older  it lacks epochs that the ledger knows to be applied. If the ledger and the destination
                              still have their records and files, the publisher applies them again; otherwise they would
                              be lost
    it is gone or damaged     a table's folder is missing, belongs to another ledger, or cannot be read, or each table
                              lacks data files

A mismatch ends the run with exit code 7 and says what to do, except for tables that commands resnapshot or remove. If
data files of some tables are gone, and nothing else is wrong, those tables alone are resnapshotted, as in a run.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from engine.base.errors import MismatchError, MissingFilesError
from engine.base.wording import listing, plural, shell_word
from engine.capture.files import DataFile, check_files
from engine.capture.landing import Landing
from engine.capture.projection.table_projection import published_as
from engine.decode.schema import Table, table_from_dict
from engine.destination.destination_protocol import CHANGES, Destination, StoredState
from engine.destination.fence import Term, is_known_term
from engine.ledger.records import Description, EpochRecord
from engine.ledger.state import Owner, State, TableState

_MAX_EXAMPLES = 5
_THREADS = 4
_ALL = "tidemark redump SPEC --all, then run"


@dataclass(frozen=True)
class Comparison:
    """The result of comparing ledger and destination."""

    ledger_older: str = ""
    """Why the ledger cannot continue with the destination; "" if it can."""
    tables: Mapping[str, str] = field(default_factory=dict)
    """The reasons, by table at fault."""
    missing_files: Mapping[str, str] = field(default_factory=dict)
    """The data files that are gone, by table that is to be resnapshotted for that."""

    def require(self, command_tables: Collection[str], *, resnapshots_all: bool) -> None:
        """Raises MismatchError.

        command_tables: tables that commands resnapshot or remove; resnapshots_all: a command resnapshots all.
        """
        if self.ledger_older and not resnapshots_all:
            raise MismatchError(
                f"The pipeline's ledger is older than its destination: {self.ledger_older}.",
                detail="The pipeline's folder was restored from an older copy, or it is a copy whose original ran on. "
                "Continuing would give new changes the numbers of old ones, and lose them. Nothing was written.",
                hint="Either put the newest folder of the pipeline back (nothing is lost), or restore ledger and "
                f"destination together from one backup (tidemark restore), or snapshot everything again: {_ALL} (the "
                "mirrors are right then; the change logs lack what happened between the old and the new start).",
            )
        faulty = (
            {name: why for name, why in self.tables.items() if name not in command_tables}
            if not resnapshots_all
            else {}
        )
        if faulty:
            examples = listing([f"{name}: {why}" for name, why in faulty.items()], _MAX_EXAMPLES, "; ")
            tables = " ".join(f"--table {shell_word(name)}" for name in faulty)
            tables_at_fault = plural(len(faulty), "table")
            raise MismatchError(
                f"The destination is not what the ledger has published, for {tables_at_fault}: {examples}.",
                detail="It was restored from an older copy, replaced or damaged. What is missing would never be "
                "applied again. Nothing was written.",
                hint="Either put the newest copy of those folders back (nothing is lost), or snapshot the tables "
                f"again: tidemark redump SPEC {tables}, then run (the mirrors are right then; the change logs keep a "
                f"gap), or give them up: tidemark remove-table SPEC {tables}",
                resnapshots=faulty,
            )


def read_states(destination: Destination, state: State) -> dict[str, StoredState]:
    """The destination's state of every table with published rows. Writes nothing."""
    tables = {name: table for name, table in state.tables.items() if _has_published_rows(table)}
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="look") as threads:
        return dict(zip(tables, threads.map(partial(_look, destination, state.owner), tables.values()), strict=True))


def _has_published_rows(table: TableState) -> bool:
    return table.begun and bool(table.rows_read or table.changes_applied or table.applied)


def _is_replaced(table: TableState) -> bool:
    """Whether a resnapshot replaces what the destination has of the table.

    It ends a stop, is due, or has begun, what was there was given up, and nothing is known to be applied since.
    """
    return bool(table.stopped or table.due or table.given_up > max([0, *table.applied.values()]))


def _look(destination: Destination, owner: Owner, table: TableState) -> StoredState:
    return destination.table(owner, _published_table(table)).read_state()


def _published_table(table: TableState) -> Table:
    return published_as(table_from_dict(table.table), table.projection)


def compare(
    destination: Destination,
    state: State,
    newest: Term | None,
    records: Sequence[EpochRecord],
    looks: Mapping[str, StoredState],
) -> Comparison:
    """Compare ledger and destination.

    newest: the destination's newest term. records: the epochs still in the ledger, in order.
    """
    ledger_terms = {number for number, _ in state.terms}
    ahead = {name: look for name, look in looks.items() if max(look.applied_epochs.values(), default=-1) > state.epoch}
    if ahead:
        name, look = next(iter(ahead.items()))
        return Comparison(f"{name} has epoch {max(look.applied_epochs.values())}, the ledger ends at {state.epoch}")
    unknown_tables = {name for name, look in looks.items() if look.terms - ledger_terms}
    if newest is not None and not is_known_term(newest, state.terms) and unknown_tables:
        return Comparison(
            f"run {newest.run} on {newest.host} has written to {min(unknown_tables)}, which the ledger does not know of"
        )
    looks = {name: look for name, look in looks.items() if not _is_replaced(state.tables[name])}
    faults = {
        name: why
        for name, look in looks.items()
        if (why := _fault(destination, state.tables[name], look, name, records))
    }
    missing_files = {name: look.missing_files for name, look in looks.items() if look.missing_files}
    if faults or len(missing_files) == len(looks):  # the destination is damaged as a whole
        return Comparison(tables=missing_files | faults)
    return Comparison(missing_files=missing_files)


def _fault(
    destination: Destination, table: TableState, look: StoredState, name: str, records: Sequence[EpochRecord]
) -> str:
    if look.fault:
        return look.fault
    behind = {kind: epoch for kind, epoch in table.applied.items() if look.applied_epochs.get(kind, -1) < epoch}
    if not behind:
        return ""
    kind, epoch = next(iter(behind.items()))
    applied_through = min(look.applied_epochs.get(kind, -1) for kind in behind)
    if CHANGES not in behind:  # of what was before its resnapshot, a mirror needs nothing
        applied_through = max(applied_through, _last_resnapshot(records, name) - 1)
    older = f"it has {kind} through epoch {look.applied_epochs.get(kind, -1)}, the ledger knows of {epoch}"
    records = [record for record in records if record.only is None or name in record.only]
    if not _contiguous(records, applied_through, max(behind.values())):
        return older
    parts = [record.tables[name] for record in records if record.epoch > applied_through and name in record.tables]
    chunks = _files(chunk.files for part in parts for chunk in part.chunks)
    changes = _files(part.change_files for part in parts)
    missing = _missing_files(destination.landing, _published_table(table), chunks, changes)
    return f"{older}; {missing}" if missing else ""


def _last_resnapshot(records: Sequence[EpochRecord], name: str) -> int:
    """The epoch with which a table's newest resnapshot began; 0 if none of these epochs did."""
    return max((one.epoch for one in records if name in one.tables and one.tables[name].resnapshot), default=0)


def _missing_files(landing: Landing, table: Table, chunks: Sequence[DataFile], changes: Sequence[DataFile]) -> str:
    """Which of the readers' files are gone or damaged; "" if none is."""
    try:
        check_files(landing.chunks(table), chunks)
        check_files(landing.changes(table), changes)
    except MissingFilesError as error:
        return error.message.rstrip(".")
    return ""


def _contiguous(records: Sequence[EpochRecord], after: int, through: int) -> bool:
    """Whether all epochs after `after`, up to `through`, are kept."""
    numbers = {record.epoch for record in records}
    return all(number in numbers for number in range(after + 1, through + 1))


def _files(lists: Iterable[Iterable[Description]]) -> list[DataFile]:
    return [DataFile(**file) for files in lists for file in files]
