"""Where readers put files for a Delta destination, in place, and how its tables are read back."""

from dataclasses import dataclass, replace

from engine.capture.landing import MirrorReader
from engine.decode.schema import Table
from engine.destination.delta.formats.iceberg_reader import IcebergReader
from engine.destination.delta.layout import changes_folder, folders, mirror_folder
from engine.destination.delta.read.delta_reader import DeltaReader
from engine.spec.sink_settings import TableFormat
from engine.store.folder import Folder


@dataclass(frozen=True)
class DeltaLanding:
    """The folders of the Delta tables: a commit adds the files where they are, so nothing is copied twice."""

    root: Folder
    table_format: TableFormat = "delta"
    """Which tables are read back."""
    in_step: bool = False

    def chunks(self, table: Table) -> Folder:
        """The mirror's folder; a table without a key has no mirror, so they go to the change log."""
        return folders(self.root, table)[0]

    def changes(self, table: Table) -> Folder:
        """The change log's folder."""
        return folders(self.root, table)[1]

    def reader(self, table: Table) -> MirrorReader:
        """Both folders."""
        database, name = table.database, table.name
        delta = DeltaReader(mirror_folder(self.root, database, name), changes_folder(self.root, database, name))
        return delta if self.table_format == "delta" else IcebergReader(delta, self.in_step)

    def in_format(self, table_format: TableFormat, *, in_step: bool = False) -> "DeltaLanding":
        """The same folders."""
        return replace(self, table_format=table_format, in_step=in_step)
