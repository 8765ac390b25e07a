"""`python -m tests.tools.bench.kafka_sink`: changes from readers' files to committed transactions of Kafka.

In messages per second, on one broker that shares the machine: from staged Parquet files of inserts and updates, by the
destination alone. Each format is measured with headers and without, in turn; medians of the rounds.
"""

import argparse
import statistics
import tempfile
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa

from engine.base import clock
from engine.capture.binlog.row_changes import log_schema
from engine.capture.files import DataFile, FileWriter
from engine.decode.arrow_schema import arrow_schema
from engine.decode.schema import Column, Table
from engine.destination.destination_protocol import CHANGES, EpochEnd
from engine.destination.fence import Term
from engine.destination.registry import destination_of
from engine.ledger.state import Owner
from engine.spec.kafka_settings import MessageFormat
from engine.spec.sink_settings import Sink
from tests.servers.kafka_broker import kafka_broker

_COLUMNS = (
    Column("id", "bigint", nullable=False),
    Column("customer_id", "int"),
    Column("state", "varchar", length=80, charset="utf8mb4", collation="utf8mb4_bin"),
    Column("amount", "decimal", precision=12, scale=2),
    Column("created", "datetime", fraction=6),
    Column("note", "varchar", length=320, charset="utf8mb4", collation="utf8mb4_bin"),
)
TABLE = Table("bench", "orders", _COLUMNS, ("id",))


def main() -> None:
    """Measure, and print a line for each combination."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.bench.kafka_sink", description=__doc__)
    parser.add_argument("--changes", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    rates = dict[tuple[str, bool], list[float]]()
    with tempfile.TemporaryDirectory() as folder, kafka_broker(Path(folder)) as broker:
        for _ in range(options.rounds):
            for format_ in get_args(MessageFormat):
                for headers in (True, False):
                    kafka = {"servers": broker.address, "format": format_, "headers": headers, "partitions": 4}
                    rates.setdefault((format_, headers), []).append(_rate(Path(folder), kafka, options.changes))
    for (format_, headers), found in rates.items():
        print(f"{format_:16} headers={headers!s:5} {statistics.median(found):10,.0f} messages/s")


def _rate(folder: Path, kafka: Mapping[str, Any], changes: int) -> float:
    name = f"b{uuid.uuid4().hex[:8]}"
    settings = {"type": "kafka", "path": folder / name, "kafka": {**kafka, "topic": f"{name}.{{table}}"}}
    destination = destination_of(Sink.model_validate(settings))
    destination.terms.take(name, Term(1, "bench", "host", 1, clock.utc_text()))
    table = destination.table(Owner(name), TABLE)
    table.open(must_exist=False)
    files = change_files(destination.landing.changes(TABLE), changes)
    began_s = time.perf_counter()
    applied = table.append(CHANGES, 1, files)
    destination.publish(EpochEnd(1, "b:1", ""))
    assert applied is not None
    return applied.rows / (time.perf_counter() - began_s)


def change_files(folder: Any, changes: int, first: int = 0) -> list[DataFile]:
    """A file of inserts, with identifiers from `first` on."""
    number = np.arange(first, first + changes)
    schema = log_schema(arrow_schema(TABLE))
    columns = columns_of(changes, first) | {
        "_tm_kind": pa.array(["+I"] * changes),
        "_tm_ts": pa.array(number * 1_000, pa.timestamp("us", "UTC")),
        "_tm_position": pa.array([f"binlog.000003:{n * 100}" for n in number]),
        "_tm_seq": number + 1,
        "_tm_tx": pa.array([f"3e11fa47-71ca-11e1-9e33-c80aa9429562:{n // 10}" for n in number]),
        "_tm_redump": pa.nulls(changes, pa.string()),
    }
    rows = pa.table([pa.array(columns[field.name]).cast(field.type) for field in schema], schema=schema)
    with FileWriter(folder, "changes", schema, ("id", "_tm_seq")) as writer:
        writer.write(rows)
        return writer.close()


def columns_of(rows: int, first: int = 0) -> dict[str, Any]:
    """The columns of rows, with identifiers from `first` on."""
    number = np.arange(first, first + rows)
    return {
        "id": number,
        "customer_id": (number % 9973).astype(np.int32),
        "state": pa.array(["new", "paid", "sent"]).take(pa.array(number % 3)),
        "amount": pa.array(number).cast(pa.decimal128(21, 2)).cast(pa.decimal128(12, 2)),
        "created": pa.array(number * 1_000_003, pa.timestamp("us")),
        "note": pa.array([f"a note of some length about order {n}" for n in number]),
    }


if __name__ == "__main__":
    main()
