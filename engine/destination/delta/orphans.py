"""Deletes orphans: files that earlier runs wrote and never committed.

It deletes only files that no epoch of the ledger names, that the destination does not have, and that are younger than the last
ledger file: a data file is complete before the ledger file of its epoch is created. Older files stay, as earlier versions of the
destination may have them.
"""

import os
from collections.abc import Collection
from pathlib import Path

from engine.decode.schema import table_from_dict
from engine.destination.delta.layout import changes_folder, mirror_folder
from engine.ledger.state import State

_PREFIXES = ("chunk-", "changes-")


def delete_unpublished(published: set[str], state: State, spared: Collection[str], root: Path, ledger: Path) -> int:
    """Delete all tables' files that are not among the `published` names. Returns how many. Call it while no reader runs.

    spared: tables whose files all stay: the destination's content is unknown, or nothing was written since the last run.
    """
    committed = max((path.stat().st_mtime_ns for path in ledger.glob("epoch-*.json")), default=None)
    if committed is None:
        return 0
    deleted = 0
    for table in (table_from_dict(t.table) for n, t in state.tables.items() if t.begun and n not in spared):
        for folder in (
            mirror_folder(root, table.database, table.name),
            changes_folder(root, table.database, table.name),
        ):
            names = os.listdir(folder) if folder.is_dir() else []  # noqa: PTH208 - names alone, of perhaps many thousand files
            for name in names:
                ours = name.startswith(_PREFIXES) and name.endswith(".parquet") and name not in published
                if ours and (path := folder / name).stat().st_mtime_ns > committed:
                    path.unlink()
                    deleted += 1
    return deleted
