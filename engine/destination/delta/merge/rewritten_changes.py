"""Writes a change file again that another tool removed before its changes were merged.

OPTIMIZE of the change log moves the rows to other files, and a VACUUM without retention removes the old file at once.
`_tm_seq` is unique in a change log: the rows of the file are those from its first to its last number, and must be as
many as it had.

The new file's name begins with a dot: a VACUUM does not see it. The merge that needs it removes it.
"""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engine.capture.batches import batches
from engine.capture.files import COMPRESSION, COMPRESSION_LEVEL, ROW_GROUP_ROWS, DataFile
from engine.decode.arrow_schema import conformed
from engine.decode.field_ids import with_field_ids
from engine.decode.schema import TM_SEQ
from engine.destination.delta.log.delta_actions import StoredFile
from engine.destination.delta.merge.newest_images import open_parquet
from engine.store.folder import Folder


def restored_name(file: DataFile) -> str:
    """The name under which `restore` writes a change file."""
    return f".{file.name}"


def restore(folder: Folder, file: DataFile, named: Sequence[StoredFile], schema: pa.Schema) -> bool:
    """Write a change file again, to `restored_name`. Returns False if the change log does not have exactly its rows.

    named: the files of the change log's newest version. schema: its columns. Raises MissingFilesError.
    """
    if TM_SEQ not in file.low or TM_SEQ not in file.high:
        return False
    low, high, parts = file.low[TM_SEQ], file.high[TM_SEQ], [schema.empty_table()]
    for source in named:
        if source.low.get(TM_SEQ, low) <= high and source.high.get(TM_SEQ, high) >= low:
            with open_parquet(folder, source.name) as data:
                for _, batch in batches(data):
                    rows = conformed(batch, schema)
                    parts.append(rows.filter((pc.field(TM_SEQ) >= low) & (pc.field(TM_SEQ) <= high)))
    changes = pa.concat_tables(parts).sort_by(TM_SEQ)
    if changes.num_rows != file.rows:
        return False
    content = pa.BufferOutputStream()
    pq.write_table(
        changes.cast(with_field_ids(changes.schema)),
        content,
        row_group_size=ROW_GROUP_ROWS,
        compression=COMPRESSION,
        compression_level=COMPRESSION_LEVEL,
        write_page_checksum=True,
    )
    folder.write(restored_name(file), content.getvalue().to_pybytes())  # whole or not at all: its name is known
    return True
