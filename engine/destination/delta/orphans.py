"""Deletes orphans: files that earlier runs wrote and never committed.

It deletes only files that no epoch of the ledger names, that the destination does not have, and that are younger than
the last ledger file: a data file is complete before the ledger file of its epoch is created. Older files stay, as
earlier versions of the destination may have them.
"""

import os
from collections.abc import Collection
from pathlib import Path

_PREFIXES = ("chunk-", "changes-")


def delete_orphans(folder: Path, table_names: Collection[str], committed_names: Collection[str], after_ns: int) -> int:
    """Delete younger files that neither the table (`table_names`) nor the ledger (`committed_names`) has.

    Returns how many.
    """
    deleted = 0
    names = os.listdir(folder) if folder.is_dir() else []  # noqa: PTH208 - names alone, of perhaps many thousand files
    for name in names:
        is_orphan = (
            name.startswith(_PREFIXES)
            and name.endswith(".parquet")
            and name not in table_names
            and name not in committed_names
        )
        if is_orphan and (path := folder / name).stat().st_mtime_ns > after_ns:
            path.unlink()
            deleted += 1
    return deleted
