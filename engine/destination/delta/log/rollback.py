"""Rolls a Delta table back to an earlier version, after checking that the version is of the same table.

A folder that was moved away and created again has versions of the same numbers. Rolled back to one of those, the table
would have rows of another time, and its transaction identifiers would have changes applied twice.
"""

from collections.abc import Mapping, Sequence

from deltalake import DeltaTable

from engine.base.errors import DestinationError
from engine.base.wording import shell_word
from engine.destination.delta.log.delta_actions import Actions, StoredFile, metadata_of
from engine.destination.delta.log.kept_versions import OldVersion
from engine.destination.delta.log.table_opening import is_table
from engine.destination.delta.schema_evolution import schema_of
from engine.store.folder import Folder


def check_is_same(
    folder: Folder, table: str, version: int, old: OldVersion, transactions: Mapping[str, int], identity: str
) -> None:
    """Raises DestinationError when a version is of another table.

    table: its full name. transactions: the identifiers that the version had, -1 for none. identity: the Delta table's;
    empty if it is not known.
    """
    then = {app: old.transactions.get(app, -1) for app in transactions}
    if identity in ("", old.identity) and then == transactions:
        return
    raise DestinationError(
        f"The Delta table in {folder.url} is another one than the backup has: "
        f"its version {version} has other identifiers.",
        detail="The folder was moved away or replaced since the backup was made. Nothing was restored.",
        hint=f"Put the folder back that the backup is of, then restore again. {_if_lost(table)}",
    )


def check_identity(folder: Folder, table: str, identity: str, then: str) -> None:
    """Raises DestinationError when a Delta table is not the one that a backup is of.

    table: its full name. identity: its identifier; then: that in the backup, empty if it is not known.
    """
    if then not in ("", identity):
        raise DestinationError(
            f"The Delta table in {folder.url} is another one than the backup has.",
            detail="It was moved away or replaced since the backup was made, as by removing the table and adding it "
            "again. Nothing was restored.",
            hint=f"Put the folder back that the backup is of, then restore again. {_if_lost(table)}",
        )


def check_is_there(folder: Folder, table: str) -> None:
    """Raises DestinationError when one of a table's folders is gone, while the other one is there.

    That one would keep the epochs after the backup: later ones with the same numbers would be taken for applied.
    """
    if not is_table(folder):
        raise DestinationError(
            f"The Delta table in {folder.url} is gone, but the other one of {table} is there.",
            detail="Both are rolled back together. Nothing was restored.",
            hint=f"Put the folder back that the backup is of, then restore again. {_if_lost(table)}",
        )


def _if_lost(table: str) -> str:
    return (
        "If it is lost, move all folders of the table away (the mirror and the change log), restore, and resnapshot "
        f"the table: tidemark redump SPEC --table {shell_word(table)}"
    )


def rolled_back(
    delta: DeltaTable, files: Sequence[StoredFile], old: OldVersion, transactions: Mapping[str, int]
) -> Actions:
    """The commit that rolls a table back. files: of the newest version. transactions: the identifiers afterwards."""
    now, then = ({file.name: file for file in stored} for stored in (files, old.files))
    changed = old.schema != schema_of(delta)
    return Actions(
        "RESTORE",
        transactions,
        [file for name, file in then.items() if name not in now or now[name].vector != file.vector],
        [file for name, file in now.items() if name not in then or then[name].vector != file.vector],
        metadata_of(delta, old.schema) if changed else None,
    )
