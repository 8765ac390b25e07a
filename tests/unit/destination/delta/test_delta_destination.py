"""The Delta destination: chunks and changes are applied once, merges build the mirror, another ledger is refused."""

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from engine.base.errors import DestinationError, SpecError
from engine.capture.binlog.row_changes import log_schema
from engine.capture.files import DataFile, FileWriter
from engine.decode.arrow_schema import arrow_schema
from engine.decode.schema import Column, Table
from engine.destination.delta.log.delta_log import files_of
from engine.destination.delta.table import DeltaDestinationTable
from engine.ledger.state import Owner
from engine.spec.sink_settings import MirrorMode
from tests.support.delta import path_of, rows_at
from tests.unit.destination.lake import Lake, delta_table, merge

TABLE = Table(
    "shop", "orders", (Column("a", "int"), Column("b", "bigint", unsigned=True), Column("v", "int")), ("a", "b")
)
Change = tuple[str, int, int, int, int]


def chunk_file(delta: DeltaDestinationTable, rows: Sequence[tuple[int, int, int]]) -> list[DataFile]:
    """A chunk's rows, as a reader writes them."""
    schema = arrow_schema(TABLE)
    with FileWriter(delta.pair.mirror.folder, "chunk", schema, TABLE.key) as writer:
        writer.write(pa.Table.from_pylist([dict(zip("abv", row, strict=True)) for row in rows], schema=schema))
        return writer.close()


def change_file(delta: DeltaDestinationTable, changes: Sequence[Change]) -> list[DataFile]:
    """Changes (kind, a, b, v, seq), as a binlog reader writes them."""
    schema = log_schema(arrow_schema(TABLE))
    names = ("_tm_kind", "a", "b", "v", "_tm_seq")
    with FileWriter(delta.pair.changes.folder, "changes", schema, (*TABLE.key, "_tm_seq")) as writer:
        writer.write(pa.Table.from_pylist([dict(zip(names, change, strict=True)) for change in changes], schema=schema))
        return writer.close()


def mirror(delta: DeltaDestinationTable) -> list[tuple[Any, ...]]:
    """The mirror's rows, sorted."""
    rows = rows_at(delta.pair.mirror.folder).to_pylist()
    return sorted((row["a"], int(row["b"]), row["v"]) for row in rows)


@pytest.fixture
def delta(tmp_path: Path, mode: MirrorMode) -> DeltaDestinationTable:
    """Both tables, empty."""
    tables = delta_table(tmp_path, Owner("ledger-1"), TABLE, on_read=mode == "merge_on_read")
    tables.pair.create(must_exist=False)
    return tables


@pytest.mark.parametrize("kind", ["double", "float"])
def test_a_key_of_minus_zero_is_the_key_of_zero(tmp_path: Path, mode: MirrorMode, kind: str) -> None:
    """The source has one of them: the newest image decides, and keeps its sign."""
    table = Table("shop", "t", (Column("k", kind), Column("v", "int")), ("k",))
    delta = delta_table(tmp_path, Owner("l"), table, on_read=mode == "merge_on_read")
    delta.pair.create(must_exist=False)
    schema = log_schema(arrow_schema(table))
    rows = [("+I", 0.0, 1, 1), ("-U", 0.0, 1, 2), ("+U", -0.0, 1, 3)]
    names = ("_tm_kind", "k", "v", "_tm_seq")
    with FileWriter(delta.pair.changes.folder, "changes", schema, ("_tm_seq",)) as writer:
        writer.write(pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema=schema))
        files = writer.close()
    delta.append("changes", 1, files)
    merge(delta, 1, files)
    (key,) = rows_at(delta.pair.mirror.folder)["k"].to_pylist()
    assert str(key) == "-0.0"


def test_a_link_is_never_taken_for_a_table(tmp_path: Path) -> None:
    """The plain name beside an encoded folder would lead to another table's rows."""
    delta_table(tmp_path, Owner("l"), Table("shop", "a%2Bb", TABLE.columns, TABLE.key)).pair.create(must_exist=False)
    with pytest.raises(SpecError, match="is a link"):
        delta_table(tmp_path, Owner("l"), Table("shop", "a+b", TABLE.columns, TABLE.key)).pair.create(must_exist=False)


def test_the_mirror_is_the_chunks_and_the_newest_change_of_each_key(delta: DeltaDestinationTable) -> None:
    """Random histories over several epochs, with keys of two columns, one of them beyond 2^63.

    Each step is applied twice.
    """
    rng, source, seq = Random(7), {}, 0
    waiting: list[DataFile] = []
    keys = [(a, 2**63 + b) for a in range(3) for b in range(3)]
    rows = [(a, b, 0) for a, b in keys[:5]]
    source = {(a, b): v for a, b, v in rows}
    files = chunk_file(delta, rows)
    assert delta.append("chunks", 0, files) is not None
    assert delta.append("chunks", 0, files) is None
    for epoch in range(1, 7):
        changes: list[Change] = []
        for _ in range(6):
            key, seq = rng.choice(keys), seq + 1
            if key in source and rng.random() < 0.6:
                changes.append(("-D", *key, source.pop(key), seq))
            elif key not in source:
                source[key] = seq
                changes.append(("+I", *key, seq, seq))
            else:
                changes += [("-U", *key, source[key], seq), ("+U", *key, seq, seq)]
                source[key] = seq
        files = change_file(delta, changes)
        waiting += files
        assert delta.append("changes", epoch, files) is not None
        assert delta.append("changes", epoch, files) is None
        if epoch % 2 == 0:
            assert merge(delta, epoch, waiting) is not None
            assert mirror(delta) == sorted((a, b, v) for (a, b), v in source.items())
            assert delta.pair.last_epoch("merge") == epoch
            waiting = []
    assert (delta.pair.last_epoch("chunks"), delta.pair.last_epoch("changes")) == (0, 6)
    assert delta.append("chunks", 7, []) is None


def test_a_table_without_key_has_only_a_change_log(tmp_path: Path, mode: MirrorMode) -> None:
    """Its single chunk is in the change log, as inserts; each kind of commit is still applied once."""
    table = Table("shop", "log", (Column("v", "int"),), ())
    delta = delta_table(tmp_path, Owner("l"), table, on_read=mode == "merge_on_read")
    delta.pair.create(must_exist=False)
    assert not path_of(delta.pair.mirror.folder).exists()
    assert DeltaTable.is_deltatable(delta.pair.changes.folder.url)
    schema = log_schema(arrow_schema(table))
    parts: list[list[DataFile]] = []
    for seq in (-5, 7):
        with FileWriter(delta.pair.changes.folder, "changes", schema, ("_tm_seq",)) as writer:
            row = {"v": 1, "_tm_kind": "+I", "_tm_seq": seq}
            writer.write(pa.Table.from_pylist([row, {**row, "_tm_seq": seq + 1}], schema=schema))
            parts.append(writer.close())
    for kind, files in zip(("chunks", "changes"), parts, strict=True):
        assert delta.append(kind, 1, files) is not None
        assert delta.append(kind, 1, files) is None
    assert [delta.pair.last_epoch(kind) for kind in ("chunks", "changes", "merge")] == [1, 1, -1]
    rows = rows_at(delta.pair.changes.folder)
    assert sorted(rows["_tm_seq"].to_pylist()) == [-5, -4, 7, 8]
    assert delta.pair.file_names() == {file.name for files in parts for file in files}
    delta.pair.create(must_exist=True)
    with pytest.raises(DestinationError, match="log__changes is gone"):
        delta_table(tmp_path / "elsewhere", Owner("l"), table).pair.create(must_exist=True)


def test_creating_twice_is_creating_once(delta: DeltaDestinationTable) -> None:
    """A new table has nothing applied."""
    delta.pair.create(must_exist=True)
    delta.pair.create(must_exist=False)
    assert [delta.pair.last_epoch(kind) for kind in ("chunks", "changes", "merge")] == [-1, -1, -1]


def test_a_destination_of_another_ledger_is_refused(delta: DeltaDestinationTable, tmp_path: Path) -> None:
    """Nothing is mixed; and a missing destination is not silently created."""
    with pytest.raises(SpecError, match="does not belong"):
        delta_table(tmp_path, Owner("ledger-2"), TABLE).pair.create(must_exist=False)
    with pytest.raises(DestinationError, match="is gone"):
        delta_table(tmp_path / "elsewhere", Owner("ledger-1"), TABLE).pair.create(must_exist=True)


def test_an_overtaken_runner_does_not_turn_the_mirror_back(delta: DeltaDestinationTable) -> None:
    """A merge of an epoch older than the mirror's does nothing."""
    later, earlier = change_file(delta, [("+I", 1, 1, 12, 12)]), change_file(delta, [("+I", 1, 1, 10, 10)])
    assert merge(delta, 12, later) is not None
    assert merge(delta, 10, earlier) is None
    assert mirror(delta) == [(1, 1, 12)]
    assert delta.pair.last_epoch("merge") == 12


@pytest.mark.parametrize(
    ("batch", "sorted_rows", "small", "keys"),
    [(64 << 10, 500_000, 8 << 20, 2_000_000), (3, 4, 8 << 20, 5), (2, 1, 0, 1), (2, 1, 8 << 20, 3)],
)
def test_a_merge_of_any_size_is_one_version(
    delta: DeltaDestinationTable, monkeypatch: pytest.MonkeyPatch, batch: int, sorted_rows: int, small: int, keys: int
) -> None:
    """However many batches, files and steps it takes, readers see the mirror before it or after it."""
    monkeypatch.setattr("engine.destination.delta.merge.mirror_files.BATCH_ROWS", batch)
    monkeypatch.setattr("engine.destination.delta.merge.mirror_files._SORTED_ROWS", sorted_rows)
    monkeypatch.setattr("engine.destination.delta.merge.mirror_files.SMALL_BYTES", small)
    monkeypatch.setattr("engine.destination.delta.merge.newest_images.MOST_KEYS", keys)
    delta.append("chunks", 1, chunk_file(delta, [(n, n, 0) for n in range(3)]))
    delta.append("chunks", 2, chunk_file(delta, [(n, n, 0) for n in range(20, 23)]))
    changes: list[Change] = [("+I", n, n, n, n) for n in range(3, 10)]
    changes += [
        (kind, n, n, n + (kind == "+U"), 10 + 2 * n + (kind == "+U")) for n in range(5) for kind in ("-U", "+U")
    ]
    changes += [("-D", 9, 9, 9, 99), ("-U", 21, 21, 0, 100), ("+U", 30, 30, 0, 101)]
    before = DeltaTable(delta.pair.mirror.folder.url).version()
    assert merge(delta, 3, change_file(delta, changes)) is not None
    assert DeltaTable(delta.pair.mirror.folder.url).version() == before + 1
    kept = [(n, n, n) for n in range(5, 9)] + [(20, 20, 0), (22, 22, 0), (30, 30, 0)]
    assert mirror(delta) == [(n, n, n + 1) for n in range(5)] + kept
    assert delta.pair.last_epoch("merge") == 3
    assert delta.pair.merged_seq() == 101
    names = {path.name for path in path_of(delta.pair.mirror.folder).glob("merge-*.parquet")}
    assert names <= delta.pair.file_names(), "a file that no version has was left"


def test_files_without_a_changed_key_stay(delta: DeltaDestinationTable) -> None:
    """Even if their statistics allow it; and merges do not leave ever smaller files."""
    delta.append("chunks", 1, chunk_file(delta, [(1, 1, 10), (9, 1, 90)]))
    delta.append("chunks", 1, [])
    kept = delta.pair.file_names()
    for n in range(5):
        merge(delta, 2 + n, change_file(delta, [("-U", 5, 1, n, 2 * n), ("+U", 5, 1, n + 1, 2 * n + 1)]))
    assert kept <= delta.pair.file_names()
    assert len(delta.pair.file_names()) == 2
    assert mirror(delta) == [(1, 1, 10), (5, 1, 5), (9, 1, 90)]


def test_a_row_that_comes_and_goes_beyond_the_end_is_merged(delta: DeltaDestinationTable) -> None:
    """Every newest image deletes a key that the mirror lacks: only the transaction identifier is committed."""
    delta.append("chunks", 1, chunk_file(delta, [(n, 1, 0) for n in range(100)]))
    files = change_file(delta, [("+I", 101, 1, 0, 1), ("-D", 101, 1, 0, 2)])
    assert merge(delta, 2, files) is not None
    assert delta.pair.last_epoch("merge") == 2
    assert len(mirror(delta)) == 100
    assert merge(delta, 2, files) is None


def test_rows_that_stand_twice_are_one_after_a_change(delta: DeltaDestinationTable) -> None:
    """Whatever damaged the mirror: all rows of the key are replaced by one."""
    delta.append("chunks", 1, chunk_file(delta, [(1, 1, 10), (2, 1, 20)]))
    delta.append("chunks", 2, chunk_file(delta, [(1, 1, 11)]))
    merge(delta, 3, change_file(delta, [("-U", 1, 1, 10, 1), ("+U", 1, 1, 12, 2)]))
    assert mirror(delta) == [(1, 1, 12), (2, 1, 20)]


def test_files_that_another_tool_has_written_are_merged_into(tmp_path: Path, mode: MirrorMode) -> None:
    """The Delta library writes texts as Arrow's string_view, and decimals and dates in its own way."""
    columns = (
        Column("a", "int"),
        Column("s", "varchar", charset="utf8mb4", length=40),
        Column("d", "date"),
        Column("b", "blob"),
    )
    table = Table("shop", "t", columns, ("a",))
    delta = delta_table(tmp_path, Owner("l"), table, on_read=mode == "merge_on_read")
    delta.pair.create(must_exist=False)
    schema = arrow_schema(table)
    rows = [{"a": n, "s": f"text {n} that is longer than twelve", "d": None, "b": b"x" * n} for n in range(20)]
    with FileWriter(delta.pair.mirror.folder, "chunk", schema, table.key) as writer:
        writer.write(pa.Table.from_pylist(rows, schema=schema))
        delta.append("chunks", 1, writer.close())
    DeltaTable(delta.pair.mirror.folder.url).delete("a >= 5 AND a < 10")
    log = log_schema(schema)
    changes = [("-U", 2, 1), ("+U", 2, 2), ("-D", 12, 3)]
    with FileWriter(delta.pair.changes.folder, "changes", log, ("a", "_tm_seq")) as writer:
        named = [{**rows[a], "_tm_kind": kind, "_tm_seq": seq} for kind, a, seq in changes]
        writer.write(pa.Table.from_pylist(named, schema=log))
        files = writer.close()
    assert merge(delta, 2, files) is not None
    left = rows_at(delta.pair.mirror.folder).sort_by("a").select("asb").to_pylist()
    assert left == [{k: row[k] for k in "asb"} for row in rows if row["a"] not in (5, 6, 7, 8, 9, 12)]


def test_an_empty_mirror_takes_deletions(delta: DeltaDestinationTable) -> None:
    """There is nothing to delete and nothing to add."""
    assert merge(delta, 1, change_file(delta, [("+I", 1, 1, 1, 1), ("-D", 1, 1, 1, 2)])) is not None
    assert (mirror(delta), delta.pair.last_epoch("merge")) == ([], 1)


def test_an_empty_mirror_takes_every_key(tmp_path: Path, mode: MirrorMode) -> None:
    """Also keys that no floating-point number represents."""
    table = Table("shop", "t", (Column("k", "bigint"), Column("v", "int")), ("k",))
    delta = delta_table(tmp_path, Owner("l"), table, on_read=mode == "merge_on_read")
    delta.pair.create(must_exist=False)
    schema = log_schema(arrow_schema(table))
    rows = [("+I", 2**62 + 1, 1, 1), ("+I", -(2**63), 2, 2), ("-D", 2**62 + 1, 1, 3), ("+I", 2**53 + 1, 3, 4)]
    names = ("_tm_kind", "k", "v", "_tm_seq")
    with FileWriter(delta.pair.changes.folder, "changes", schema, ("_tm_seq",)) as writer:
        writer.write(pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema=schema))
        files = writer.close()
    delta.append("changes", 1, files)
    merge(delta, 1, files)
    assert sorted(rows_at(delta.pair.mirror.folder)["k"].to_pylist()) == [-(2**63), 2**53 + 1]


def test_statistics_do_not_depend_on_the_number_of_columns(tmp_path: Path, mode: MirrorMode) -> None:
    """`_tm_seq` comes after the source's columns; without its statistics, the largest would pass for 0."""
    for name in ("id", "a,b"):
        columns = (*(Column(f"c{n}", "int") for n in range(40)), Column(name, "int", nullable=False))
        lake = Lake(tmp_path / name, mode, Table("d", "t", columns, (name,)), key=name)
        lake.copy({1: 1, 2: 2})
        lake.change([(1, 5), (2, None)])
        assert lake.pair.changes.largest_seq() == 2
        (file,) = (
            file
            for file in files_of(DeltaTable(lake.pair.mirror.folder.url), lake.pair.mirror.folder)
            if file.rows == 1
        )
        assert (file.low[name], file.high[name], file.high["_tm_seq"]) == (1, 1, 1)


def test_a_table_of_an_earlier_version_gets_its_statistics(tmp_path: Path) -> None:
    """Those had the statistics of the first eight columns."""
    columns = (Column("id", "int", nullable=False), *(Column(f"c{n}", "int") for n in range(9)))
    lake = Lake(tmp_path, "copy_on_write", Table("d", "t", columns, ("id",)))
    lake.change([(1, 5)])
    first = path_of(lake.pair.changes.folder) / "_delta_log" / f"{0:020d}.json"
    actions = [json.loads(line) for line in first.read_text().splitlines()]
    for action in actions:
        if "metaData" in action:
            action["metaData"]["configuration"] = {"delta.dataSkippingNumIndexedCols": "8"}
    first.write_text("".join(json.dumps(action) + "\n" for action in actions))
    assert lake.opened().changes.largest_seq() == 0
    lake.opened().create(must_exist=True)
    assert lake.opened().changes.largest_seq() == 1
