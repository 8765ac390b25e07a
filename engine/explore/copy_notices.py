"""What a reader of a table must know while it is not copied: nobody may take 0 rows for the truth."""

from collections.abc import Iterable

from engine.ledger.state import TableState
from engine.ledger.store import Ledger
from engine.pipeline.directory import Directory


def copy_notice(name: str, table: TableState, *, changes: bool = False) -> str:
    """That a table is not copied yet and how far it is, or that it is being resnapshotted; empty if it is copied.

    changes: whether its change log is read, not its mirror. That of a table with a key gets no rows from the copy, but
    changes of the chunks that are copied.
    """
    if table.copied:
        return ""
    what, done = "change log" if changes else "mirror", table.coverage.done
    how_far = f"{done:,} of about {table.chunks:,} chunks are copied" if done else "no chunk is copied yet"
    if table.generation:
        return f"{name} is being resnapshotted: {how_far}. Until that is complete, its {what} is as it was before."
    if table.stopped:
        return f"{name} stopped before it was copied: {how_far}. Its {what} lacks rows."
    return f"{name} is not copied yet: {how_far}. Its {what} lacks rows until all are."


def copy_notices(directory: Directory, names: Iterable[str]) -> list[str]:
    """The notices about tables (`database.table`) of a pipeline that are not copied. Raises LedgerError."""
    state = Ledger(directory.ledger).state
    tables = [(name, state.tables[name]) for name in names if name in state.tables] if state else []
    return [notice for name, table in tables if (notice := copy_notice(name, table))]
