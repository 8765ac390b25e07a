"""Where readers put files for destinations that cannot take them as they are: beside the destination, for a while.

The files are deleted once every destination has applied their epoch, when the ledger forgets it. What a killed run left
is deleted at the next start.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from engine.capture.files import DataFile
from engine.decode.schema import Table
from engine.destination.place_names import place_name
from engine.store.folder import Folder

FOLDER = "_staged"


@dataclass(frozen=True)
class StagedLanding:
    """Folders beside the tables: `_staged/<database>/<table>` in the destination, which all workers share."""

    root: Folder

    def _folder(self, table: Table) -> Folder:
        database, name = place_name(self.root, table.database), place_name(self.root, table.name)
        return self.root / FOLDER / database / name

    def chunks(self, table: Table) -> Folder:
        """The table's folder."""
        return self._folder(table)

    def changes(self, table: Table) -> Folder:
        """The table's folder."""
        return self._folder(table)

    def collect(self, table: Table, files: Sequence[DataFile]) -> None:
        """Delete the files."""
        self._folder(table).delete(file.name for file in files)

    def delete_orphans(self, committed_names: Collection[str]) -> int:
        """Delete files that no epoch of the ledger names. Returns how many. Call it while no reader runs."""
        staged = self.root / FOLDER
        names = (entry.name for entry in staged.below() if entry.name.endswith(".parquet"))
        orphans = [name for name in names if name.rpartition("/")[2] not in committed_names]
        staged.delete(orphans)
        return len(orphans)
