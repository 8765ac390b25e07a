"""The properties of our Delta tables."""

import re

import pyarrow as pa
from deltalake import DeltaTable

from engine.decode.arrow_schema import arrow_schema
from engine.decode.schema import TM_SEQ, TM_TS, Table
from engine.destination.delta.log.delta_actions import VECTORS_ENABLED

PROPERTIES = {
    "delta.enableChangeDataFeed": "false",
    # Merges on read replace the entries of many files. Each stays in the checkpoints for this time.
    "delta.deletedFileRetentionDuration": "interval 1 days",
    # How long versions can be read, and backups restored.
    "delta.logRetentionDuration": "interval 7 days",
}
_STATISTICS = "delta.dataSkippingStatsColumns"
_INDEXED = "delta.dataSkippingNumIndexedCols"
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def is_on_read(delta: DeltaTable) -> bool:
    """Whether changes are merged into a mirror on read."""
    return delta.metadata().configuration.get(VECTORS_ENABLED) == "true"


def properties_of(table: Table, *, mirror: bool) -> dict[str, str]:
    """The Delta properties that name the columns with statistics, of the mirror or of the change log.

    deltalake reads statistics of the first 32 columns by default. A change log's own columns come after the source's,
    and `_tm_seq` without statistics would pass for 0. Columns with other characters are not listed: then all columns
    have them.
    """
    schema = arrow_schema(table)
    columns = [name for name in table.key if pa.types.is_integer(schema.field(name).type)]
    if all(_PLAIN.fullmatch(name) for name in columns):
        return {_STATISTICS: ",".join([*columns, TM_SEQ, *([] if mirror else [TM_TS])])}
    return {_INDEXED: "-1"}
