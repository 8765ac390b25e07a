"""What changes leave of each key: its last image. Earlier images of the same batch are overwritten anyway."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.capture.batches import batches, parquet_file
from engine.capture.files import DataFile
from engine.decode.schema import TM_KIND, TM_SEQ
from engine.store.folder import Folder

_BATCH_BYTES = 32 << 20
_NUMBER = "_tm_number"


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


def net_changes(images: pa.Table, key: Sequence[str]) -> tuple[pa.Table, pa.Table]:
    """The rows that are left, and the keys that are gone, of a part of a change log in order."""
    numbered = images.select([*key]).append_column(_NUMBER, pa.array(np.arange(images.num_rows)))
    last = numbered.group_by([*key], use_threads=False).aggregate([(_NUMBER, "max")])[f"{_NUMBER}_max"]
    newest = images.take(last)
    is_gone = pc.starts_with(newest[TM_KIND], "-")
    return newest.filter(pc.invert(is_gone)), newest.filter(is_gone).select([*key])
