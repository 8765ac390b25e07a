"""`python -m tests.tools.bench.mirror`: what a mirror costs under steady changes, with maintenance, and no server.

Each second has 1 000 random updates, 200 inserts and 100 deletes. Merges follow each other at once, so their time, and
that of the maintenance between them, is the share of the merge interval in which a core is busy. The figures that
matter are bytes written per byte of changed rows, disk used per byte of the table, and how little both depend on the
table's size.
"""

import argparse
import resource
import tempfile
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engine.capture.binlog.row_changes import log_schema
from engine.capture.files import FileWriter
from engine.decode.arrow_schema import arrow_schema
from engine.decode.schema import Column, Table
from engine.destination.delta.maintenance.steps import PairMaintenance
from engine.destination.delta.merge.key_index import KeyIndex
from engine.destination.delta.table import DeltaDestinationTable, DeltaMirror
from engine.destination.delta.table_pair import TablePair
from engine.destination.destination_protocol import KINDS, Content, MirrorStep
from engine.destination.maintenance_schedule import Maintenance
from engine.destination.table_progress import Target
from engine.journal import Journal
from engine.ledger.state import Owner
from engine.spec.sink_settings import Sink
from engine.store.local_folder import LocalFolder
from tests.support.delta import path_of

UPDATES, INSERTS, DELETES = 1000, 200, 100
"""A second."""
CHUNK_ROWS = 250_000


def _text(name: str, kind: str, length: int, *, nullable: bool = True) -> Column:
    return Column(name, kind, nullable=nullable, length=length, charset="ascii", collation="ascii_bin")


def _table(key: str) -> Table:
    identity = Column("id", "bigint", nullable=False) if key == "int" else _text("id", "char", 36, nullable=False)
    numbers = (Column(f"n{n}", "int") for n in range(5))
    texts = (_text(f"t{n}", "varchar", 80) for n in range(3))
    return Table("d", "t", (identity, *numbers, *texts), ("id",))


@dataclass
class Steady:
    """A mirror with `rows` rows under changes."""

    folder: Path
    table: Table
    rows: int
    mode: str
    interval_s: int
    seq: int = 0
    epoch: int = 0
    merged_s: list[float] = field(default_factory=list)
    maintained_s: float = 0.0
    changed_bytes: int = 0
    written_bytes: int = 0
    most_bytes: int = 0

    def __post_init__(self) -> None:
        self.chance, self.now = np.random.default_rng(1), datetime(2026, 1, 1, tzinfo=UTC)
        self.pair = TablePair(
            LocalFolder(self.folder / "lake"), Owner("l"), self.table, on_read=self.mode == "merge_on_read"
        )
        self.delta = DeltaDestinationTable(Sink(path=self.folder / "lake"), self.pair)
        self.maintenance = PairMaintenance(self.pair, self.folder / "notes.json", Sink(path=self.folder).max_versions)
        self.pair.mirror.index = KeyIndex(self.folder / "keys")
        self.pair.create(must_exist=False)
        self.sizes: dict[Path, int] = {}

    def copy(self) -> None:
        """The snapshot."""
        for begin in range(0, self.rows, CHUNK_ROWS):
            keys = np.arange(begin, min(begin + CHUNK_ROWS, self.rows))
            self.epoch += 1
            with FileWriter(self.pair.mirror.folder, "chunk", arrow_schema(self.table), self.table.key) as writer:
                writer.write(self._rows(keys))
                self.delta.append("chunks", self.epoch, writer.close())
        self._grown()

    def settle(self) -> None:
        """Forget what the copy has left."""
        for path in path_of(self.pair.mirror.folder).glob("*.parquet"):
            if path.name not in self.pair.file_names():
                path.unlink()
        self.most_bytes = 0
        self._grown()

    def _rows(self, keys: npt.NDArray[np.int64]) -> pa.Table:
        schema, count = arrow_schema(self.table), len(keys)
        columns: list[pa.Array] = [self._keys(keys)]
        columns += [pa.array(self.chance.integers(0, 2**31, count), pa.int32()) for _ in range(5)]
        words = [pa.array(self.chance.integers(0, 10**12, count)).cast(pa.string()) for _ in range(3)]
        columns += [pc.binary_join_element_wise(word, "some text beside it", " ") for word in words]
        return pa.table(columns, schema.names).cast(schema)

    def _keys(self, keys: npt.NDArray[np.int64]) -> pa.Array:
        if self.table.columns[0].type == "bigint":
            return pa.array(keys)
        scattered = (keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)).tolist()
        return pa.array(
            [f"{value:016x}-0000-4000-8000-{key:012d}" for value, key in zip(scattered, keys.tolist(), strict=True)]
        )

    def merge(self) -> None:
        """The changes of one interval."""
        self.epoch += 1
        self.now += timedelta(seconds=self.interval_s)
        updates, inserts, deletes = (count * self.interval_s for count in (UPDATES, INSERTS, DELETES))
        updated = self.chance.integers(0, self.rows, updates + deletes)
        inserted = np.arange(self.rows, self.rows + inserts)
        keys, kinds = np.concatenate([updated, inserted]), ["+U"] * updates + ["-D"] * deletes + ["+I"] * inserts
        self.rows += inserts
        rows, schema = self._rows(keys), log_schema(arrow_schema(self.table))
        seq = pa.array(np.arange(self.seq + 1, self.seq + 1 + len(keys)))
        self.seq += len(keys)
        times = pa.array([self.now] * len(keys), pa.timestamp("us", "UTC"))
        own = {"_tm_kind": pa.array(kinds), "_tm_seq": seq, "_tm_ts": times}
        others = [column for column in schema if column.name not in rows.column_names]
        missing = [own.get(column.name, pa.nulls(len(keys), column.type)) for column in others]
        with FileWriter(self.pair.changes.folder, "changes", schema, (*self.table.key, "_tm_seq")) as writer:
            writer.write(pa.table([*rows.columns, *missing], schema=schema))
            files = writer.close()
        self.changed_bytes += files[0].bytes
        self.delta.append("changes", self.epoch, files)
        self._grown()
        began = time.monotonic()
        DeltaMirror(self.pair).apply(Content([MirrorStep(changes=files)], merge=self.epoch))
        self.merged_s.append(time.monotonic() - began)
        self.written_bytes += self._grown()

    def maintain(self, maintenance: Maintenance, targets: dict[str, Target]) -> None:
        """What is due."""
        began = time.monotonic()
        while maintenance.run_one(targets):
            self.written_bytes += self._grown()
        self.maintained_s += time.monotonic() - began

    def _grown(self) -> int:
        """Bytes of new files in the mirror's folder since the last call, its log included."""
        found = {path: path.stat().st_size for path in path_of(self.pair.mirror.folder).rglob("*") if path.is_file()}
        grown = sum(size for path, size in found.items() if path not in self.sizes)
        self.sizes = found
        self.most_bytes = max(self.most_bytes, sum(found.values()))
        return grown


def main() -> None:
    """Print one line."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.bench.mirror", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--key", choices=("int", "uuid"), default="int")
    parser.add_argument("--mode", choices=("copy_on_write", "merge_on_read"), default="merge_on_read")
    parser.add_argument("--merges", type=int, default=150, help="how many")
    parser.add_argument("--interval", type=int, default=4, help="seconds between two merges")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder:
        _run(Path(folder), options)


def _run(folder: Path, options: argparse.Namespace) -> None:
    steady = Steady(folder, _table(options.key), options.rows, options.mode, options.interval)
    steady.copy()
    while steady.maintenance.optimize():  # once, after a snapshot
        steady.maintenance.vacuum(set(), timedelta())
    steady.settle()
    table_bytes = sum(size for path, size in steady.sizes.items() if path.suffix == ".parquet")
    sink = Sink(path=folder / "lake", files_retention="2s")
    with_journal = Journal(folder / "journal.jsonl", "bench")
    maintenance = Maintenance(sink, with_journal, dict)
    target = Target(
        steady.delta,
        steady.maintenance,
        mutable_key=False,
        applied_epochs=dict.fromkeys(KINDS, 0),
        on_commit=lambda _: None,
    )
    began = time.monotonic()
    for _ in range(options.merges):
        steady.merge()
        maintenance.count_commit("d.t", is_merge=True)
        maintenance.count_commit("d.t", is_merge=False)
        steady.maintain(maintenance, {"d.t": target})
    took_s, merged = time.monotonic() - began, np.array(steady.merged_s)
    sizes = steady.maintenance.sizes()
    with_journal.close()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    figures = {
        "table": f"{table_bytes / 1e6:,.0f} MB",
        "merge": f"{np.median(merged):.3f} s, p95 {np.quantile(merged, 0.95):.3f} s",
        "maintenance per merge": f"{steady.maintained_s / options.merges:.3f} s",
        "busy": f"{took_s / options.merges / options.interval:.0%} of the time",
        "written": f"{steady.written_bytes / steady.changed_bytes:.1f} × the changes",
        "disk": f"at most {steady.most_bytes / table_bytes:.2f} × the table",
        "files": str(sizes.mirror_files),
        "memory": f"{memory:,.0f} MiB",
    }
    print(
        f"{options.rows:,} rows, {options.key}, {options.mode}, merged every {options.interval} s: {figures}",
        flush=True,
    )


if __name__ == "__main__":
    main()
