"""The rows of readers' files, for destinations that write them themselves."""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from engine.capture.batches import batches, parquet_file
from engine.capture.files import DataFile
from engine.decode.schema import TM_SEQ
from engine.store.folder import Folder

_BATCH_BYTES = 32 << 20


def rows_of(folder: Folder, files: Sequence[DataFile]) -> Iterator[pa.Table]:
    """The rows of files, in parts of bounded size: images in the order of the changes."""
    waiting, size, columns = list[pa.Table](), 0, list[str]()
    for file in sorted(files, key=lambda one: one.low.get(TM_SEQ, 0)):
        with folder.open(file.name) as data, parquet_file(data) as parquet:
            for _, batch in batches(parquet):
                if waiting and (size + batch.nbytes > _BATCH_BYTES or batch.column_names != columns):
                    yield pa.concat_tables(waiting, promote_options="permissive")
                    waiting, size = [], 0
                waiting.append(batch)
                size += batch.nbytes
                columns = batch.column_names
    if waiting:
        yield pa.concat_tables(waiting, promote_options="permissive")
