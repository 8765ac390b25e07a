"""Deletes orphans: files that earlier runs wrote and never committed.

It deletes only files that no epoch of the ledger names, that the destination does not have, and that are younger than
the last ledger file: a data file is complete before the ledger file of its epoch is created. Older files stay, as
earlier versions of the destination may have them.

A bucket's times are those of its own clock, which say nothing about a ledger's: there orphans wait for the vacuum.
"""

from collections.abc import Collection

from engine.store.folder import Folder
from engine.store.local_folder import LocalFolder

_PREFIXES = ("chunk-", "changes-")


def delete_orphans(
    folder: Folder, table_names: Collection[str], committed_names: Collection[str], after_ns: int
) -> int:
    """Delete younger files that neither the table (`table_names`) nor the ledger (`committed_names`) has.

    Returns how many.
    """
    if not isinstance(folder, LocalFolder):
        return 0
    orphans = [
        entry.name
        for prefix in _PREFIXES
        for entry in folder.entries(prefix)
        if entry.name.endswith(".parquet")
        and entry.name not in table_names
        and entry.name not in committed_names
        and entry.changed_s * 1e9 > after_ns
    ]
    folder.delete(orphans)
    return len(orphans)
