"""The features of Delta tables that Tidemark reads and writes."""

from deltalake import DeltaTable

from engine.base.errors import DestinationError
from engine.destination.delta.log.delta_actions import LEGACY_WRITER
from engine.destination.delta.log.vector_log import FEATURE
from engine.store.folder import Folder

# Known features that change the content of data files or commits; a table by another tool may have others.
_READABLE = {"timestampNtz", "variantType", "variantType-preview", FEATURE}
_WRITABLE = {*_READABLE, "appendOnly", "invariants"}
_WRITER_VERSIONS = (1, LEGACY_WRITER, 7)


def check_protocol(delta: DeltaTable, folder: Folder) -> None:
    """Raises DestinationError when a table has features that Tidemark does not read and write."""
    protocol = delta.protocol()
    readers, writers = set(protocol.reader_features or ()), set(protocol.writer_features or ())
    unknown = (readers - _READABLE) | (writers - _WRITABLE)
    if unknown or protocol.min_writer_version not in _WRITER_VERSIONS:
        raise unsupported(folder, ", ".join(sorted(unknown)) or f"writer version {protocol.min_writer_version}")


def unsupported(folder: Folder, what: str) -> DestinationError:
    """The error for a table of another tool. what: it has."""
    return DestinationError(
        f"The Delta table in {folder.url} has {what}, which Tidemark does not write.",
        detail="Another tool has added it. The table stays as it is; Tidemark no longer writes to it.",
        hint="Move the folder away, then resnapshot the table: tidemark redump SPEC --table …",
    )
