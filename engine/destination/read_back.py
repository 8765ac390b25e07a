"""Reads a table back from the first destination, for a sink that joins a pipeline which has copied it already.

The mirror is read once it has everything through the epoch after which the sink takes epochs. It may have later changes
too: its own number says through which epoch M, and the sink then takes those after M. So the rows are the table at M,
as long as no resnapshot lies between; the table's generation shows that.

A table without a key has no mirror. Its change log is read instead, which has its rows as well.
"""

from collections.abc import Callable
from dataclasses import dataclass

from engine.capture.binlog.row_changes import log_schema
from engine.capture.files import DataFile, FileWriter
from engine.capture.landing import Landing, reader_of
from engine.decode.arrow_schema import arrow_schema, conformed
from engine.decode.schema import Table
from engine.destination.destination_protocol import CHANGES, MERGE
from engine.ledger.state import Owner
from engine.store.folder import Folder

HasEverything = Callable[[str, int], bool]
"""Whether the first destination has all changes of a table through an epoch."""
_FILE_ROWS = 4_000_000


@dataclass(frozen=True)
class TableRows:
    """The rows of a table, in the folder for its chunks."""

    through: int
    """The last epoch whose changes they have."""
    files: list[DataFile]
    folder: Folder

    def delete(self) -> None:
        """Delete the files."""
        self.folder.delete(file.name for file in self.files)


def read_back(landing: Landing, owner: Owner, table: Table, epoch: int, check: Callable[[], None]) -> TableRows:
    """The rows of a table that has everything through an epoch.

    table: as it is published. check: called now and then; its error ends the reading. Raises DestinationError, OSError,
    pa.ArrowException.
    """
    reader, folder = reader_of(landing, table), landing.chunks(table)
    version = reader.mirror() if table.key else reader.log()
    if version is None:  # it was created without rows
        return TableRows(epoch, [], folder)
    newest = version.transaction(owner.transaction(MERGE if table.key else CHANGES))
    schema = arrow_schema(table) if table.key else log_schema(arrow_schema(table))
    batches, files, rows = version.batches(schema.names), list[DataFile](), _FILE_ROWS
    try:
        while rows >= _FILE_ROWS:
            rows = 0
            with FileWriter(folder, "chunk" if table.key else "changes", schema, ()) as writer:
                for batch in batches:
                    check()
                    writer.write(conformed(batch, schema))
                    rows += batch.num_rows
                    if rows >= _FILE_ROWS:
                        break
                files += writer.close()
    except BaseException:
        TableRows(epoch, files, folder).delete()
        raise
    finally:
        version.release()
    return TableRows(max(newest, epoch), files, folder)
