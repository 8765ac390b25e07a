"""Position deletes, the deletes of version 2: Parquet files that name rows of data files, in order.

Source: Apache Iceberg table spec, "Position Delete Files".
"""

import io
from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

RowPositions = npt.NDArray[np.uint32]
PATH_FIELD = 2147483546
_POSITION_FIELD = 2147483545
_SCHEMA = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": str(PATH_FIELD)}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": str(_POSITION_FIELD)}),
    ]
)


def content_of(positions: Mapping[str, RowPositions]) -> bytes:
    """The file. positions: by the URI of a data file, in order."""
    paths, rows = list[pa.Array](), list[pa.Array]()
    for path in sorted(positions):
        of_file = positions[path]
        paths.append(pa.repeat(path, len(of_file)))
        rows.append(pa.array(of_file.astype(np.int64)))
    table = pa.table([pa.chunked_array(paths, pa.string()), pa.chunked_array(rows, pa.int64())], schema=_SCHEMA)
    target = io.BytesIO()
    pq.write_table(table, target, compression="zstd", use_dictionary=["file_path"])
    return target.getvalue()


def united(files: Iterable[bytes]) -> dict[str, RowPositions]:
    """The positions of several files, by data file."""
    tables = [pq.read_table(io.BytesIO(content)) for content in files]
    if not tables:
        return {}
    grouped = pa.concat_tables(tables).group_by("file_path").aggregate([("pos", "list")])
    paths, rows_of_paths = grouped.select(["file_path", "pos_list"]).columns
    pairs = zip(paths.to_pylist(), rows_of_paths, strict=True)
    return {path: np.unique(rows.values.to_numpy()).astype(np.uint32) for path, rows in pairs}
