"""The ledger: records build the state, one runner commits an epoch, and no record that is needed is ever deleted."""

import ast
import errno
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import count, pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.base.errors import DecodeError, LedgerError, PipelineHeldError
from engine.ledger import store
from engine.ledger.record_json import change_from_json, epoch_from_json, epoch_to_json, state_from_json, state_to_json
from engine.ledger.records import Due, EpochRecord, TableChange
from engine.ledger.state import State, apply, following, latest_resnapshots
from engine.ledger.store import Ledger
from engine.plan.chunks import WHOLE, Plan, Range, Strategy, plan_from_dict
from engine.plan.coverage import Chunk, Coverage, Split, Unsplit, split_as_dict, unsplit_table
from tests.support.depth import depth

_folders = count()


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full state every five epochs."""
    monkeypatch.setattr(store, "FULL_STATE_EVERY", 5)


POSITION = {"file": "b.000001", "offset": 4, "gtids": None, "born": None}
STRATEGIES: list[tuple[Strategy, int]] = [("even", 10**6), ("uneven", 9), ("one", 1)]


def planned(name: str, strategy: Strategy, chunks: int) -> Any:
    """A table that joins."""
    plan = Plan(name, 9, 9, ("k",), "i", "0", "9", None, strategy, "", 5, chunks, "1", "1")
    return {"table": {"name": name}, "plan": plan.as_dict()}


def split_some(coverage: Coverage, rng: Random) -> tuple[Coverage, list[Chunk]]:
    """Split one or two chunks off an unsplit range."""
    of = rng.choice(coverage.unsplit)
    chunks, lower = [], of.limits.lower
    for _ in range(rng.randrange(1, 3)):
        bound = (str(int(lower[0] if lower else 0) + 10), *(["7"] * rng.randrange(2)))
        chunks.append(Range(lower, bound))
        lower = bound
    if of.way == "whole" or of.limits.upper or rng.random() < 0.3:
        return coverage.after(Split(of, (of.limits,), None))
    return coverage.after(Split(of, tuple(chunks), Range(lower, None)))


def progress(coverage: Coverage, rng: Random) -> tuple[Coverage, dict[str, Any]]:
    """What an epoch records of a table's chunks, and the coverage after it."""
    change: dict[str, Any] = {}
    planned_chunks: dict[int, Chunk] = {}
    for _ in range(rng.randrange(3)):
        if coverage.unsplit:
            coverage, chunks = split_some(coverage, rng)
            planned_chunks |= {chunk.number: chunk for chunk in chunks}
    taken = rng.sample(sorted(coverage.pending), min(len(coverage.pending), rng.randrange(3)))
    for number in taken:
        limits = coverage.pending[number]
        if limits.upper is None and rng.random() < 0.5:  # it has grown: read up to a nearer bound
            nearer = Range(limits.lower, (str(int(limits.lower[0] if limits.lower else 0) + 5),))
            coverage = coverage.shortened(number, nearer)
            planned_chunks[number] = Chunk(number, nearer)
    if planned_chunks:
        change["split"] = split_as_dict(planned_chunks.values(), coverage)
    if taken:
        change["chunks"] = [{"chunk": c, "exact": POSITION, "files": [], "rows": 10 + c, "nulled": {}} for c in taken]
    return coverage.finish(taken), change


def records(rng: Random) -> Iterator[EpochRecord]:
    """Epochs as a coordinator commits them."""
    coverages: dict[str, Coverage] = {}
    seq = 0
    for epoch in count():
        tables: dict[str, Any] = {}
        if epoch == 0 or rng.random() < 0.1:
            name = f"shop.t{len(coverages)}"
            plan = planned(name, *rng.choice(STRATEGIES))
            coverages[name] = unsplit_table(plan_from_dict(plan["plan"]))
            tables[name] = {"planned": plan}
        for name in list(coverages):
            change = tables.setdefault(name, {})
            coverages[name], said = progress(coverages[name], rng)
            change |= said
            if rng.random() < 0.5:
                dates = {"d": rng.randrange(3)}
                change["changes"] = {"files": [], "kinds": [rng.randrange(5) for _ in range(4)], "nulled": dates}
                seq += sum(change["changes"]["kinds"])
            if rng.random() < 0.05:
                change["stopped"] = DecodeError("ü").as_dict()
        yield epoch_from_json(json.loads(json.dumps({
            "epoch": epoch, "run": "r", "ts": "",
            "from": {**POSITION, "offset": epoch}, "to": {**POSITION, "offset": epoch + 1},
            "next_seq": seq,
            "tables": tables, **({"identity": "uuid", "ledger": "l1"} if epoch == 0 else {}),
        })))  # fmt: skip


def naive(history: list[EpochRecord]) -> Any:
    """The state, computed from the JSON of all records at once."""
    tables: dict[str, Any] = {}
    epochs = [epoch_to_json(record)["tables"] for record in history]
    for name in {name for epoch in epochs for name in epoch}:
        mine = [epoch[name] for epoch in epochs if name in epoch]
        done = [chunk for change in mine for chunk in change.get("chunks", [])]
        finished = {chunk["chunk"] for chunk in done}
        stops = [change["stopped"] for change in mine if "stopped" in change]
        splits = [change["split"] for change in mine if "split" in change]
        chunks = {number: [lower, upper] for split in splits for number, lower, upper in split["chunks"]}
        dates = [change["changes"]["nulled"]["d"] for change in mine if "changes" in change]
        tables[name] = {
            "plan": next(change["planned"]["plan"] for change in mine if "planned" in change),
            "finished": finished,
            "pending": {number: limits for number, limits in chunks.items() if number not in finished},
            "unsplit": splits[-1]["unsplit"] if splits else None,
            "read": sorted(str(limits) for number, limits in chunks.items() if number in finished),
            "rows_read": sum(chunk["rows"] for chunk in done),
            "changes_applied": sum(sum(change["changes"]["kinds"]) for change in mine if "changes" in change),
            "nulled": sum(dates),
            "stopped": stops[-1] if stops else None,
        }
    return tables


def seen(state: State, history: list[EpochRecord]) -> Any:
    """A state in the form of `naive`, with joined ranges split at the chunks' bounds."""
    tables = {}
    for name, table in state.tables.items():
        own = {field: getattr(table, field) for field in ("plan", "rows_read", "changes_applied")}
        written = table.coverage.as_dict()
        expected = naive(history)[name]["read"]
        tables[name] = {
            **own,
            "stopped": table.stopped.to_json() if table.stopped else None,
            "finished": {n for first, last in table.coverage.finished for n in range(first, last + 1)},
            "pending": {number: ends for number, *ends in written["chunks"]},
            "unsplit": written["unsplit"] if any(name in r.tables and r.tables[name].split for r in history) else None,
            "read": expected if runs_of(expected) == sorted(map(str, written["runs"])) else written["runs"],
            "nulled": table.nulled.get("d", 0),
        }
    return tables


def runs_of(chunks: list[str]) -> list[str]:
    """Join neighbouring ranges, the slow way."""
    ranges = [ast.literal_eval(chunk) for chunk in chunks]
    while pair := next(((a, b) for a in ranges for b in ranges if a[1] is not None and a[1] == b[0]), None):
        ranges = [r for r in ranges if r not in pair] + [[pair[0][0], pair[1][1]]]
    return sorted(map(str, ranges))


@given(st.integers(0, 2**32), st.integers(1, 30))
def test_replaying_records_gives_the_state(seed: int, epochs: int) -> None:
    """A full state in between changes nothing."""
    source = records(Random(seed))
    history = [next(source) for _ in range(epochs)]
    state = shortcut = None
    for record in history:
        state = apply(state, record)
        shortcut = state_from_json(json.loads(json.dumps(state_to_json(apply(shortcut, record)))))
    assert state is not None
    assert state == shortcut
    assert seen(state, history) == naive(history)
    for table in state.tables.values():
        assert table.copied == (len(table.coverage.pieces()) == 1 and table.coverage.pieces()[0].finished)
        assert table.chunks >= table.coverage.done
    assert (state.position, state.next_seq) == (history[-1].to_position, history[-1].next_seq)
    assert state.copied == all(t.copied or t.stopped is not None for t in state.tables.values())


@given(st.integers(0, 2**32))
@settings(max_examples=depth(10, 100))
def test_resuming_at_any_instant_gives_the_committed_state(tmp_path: Path, often: None, seed: int) -> None:
    """Commits, prunings, restarts and leftovers of crashes in any order: state and unapplied epochs are right."""
    rng, folder = Random(seed), tmp_path / str(next(_folders))
    ledger, history, applied = Ledger(folder), [], -1
    source = records(rng)
    for _ in range(25):
        act = rng.random()
        if act < 0.6:
            history.append(next(source))
            assert seen(ledger.commit(history[-1]), history) == naive(history)
        elif act < 0.75:
            applied = rng.randrange(applied, len(history)) if applied < len(history) else applied
            ledger.prune(applied)
        elif folder.is_dir():
            (folder / f".epoch-{len(history):08d}.json.9").write_text('{"epoch":', encoding="utf-8")
            (folder / f".state-{len(history):08d}.json.1").write_text("", encoding="utf-8")
            ledger = Ledger(folder)
        assert (ledger.state is None) == (not history)
        assert ledger.state is None or seen(ledger.state, history) == naive(history)
        kept = list(ledger.kept_epochs())
        assert kept == history[len(history) - len(kept) :]
        assert len(kept) >= len(history) - 1 - applied, "an epoch is gone that a sink still needs"


def test_only_one_of_two_runners_commits_an_epoch(tmp_path: Path) -> None:
    """The other one stops, and the committed record is the first one's."""
    source = records(Random(1))
    first, second = Ledger(tmp_path), Ledger(tmp_path)
    record = next(source)
    first.commit(record)
    with pytest.raises(PipelineHeldError) as held:
        second.commit(replace(record, run="another"))
    assert held.value.exit_code == 5
    assert Ledger(tmp_path).epoch(0).run == "r"
    assert [path.name for path in tmp_path.iterdir()] == ["epoch-00000000.json"]


def test_a_runner_that_slept_through_a_pruning_commits_nothing(tmp_path: Path, often: None) -> None:
    """Its epoch's file is gone and the name is free, but a full state shows that the epoch was committed."""
    source = records(Random(2))
    awake = Ledger(tmp_path)
    history = [next(source) for _ in range(14)]
    for record in history[:3]:
        awake.commit(record)
    asleep = Ledger(tmp_path)
    for record in history[3:]:
        awake.commit(record)
    awake.prune(13)
    assert not (tmp_path / "epoch-00000003.json").exists()
    with pytest.raises(PipelineHeldError):
        asleep.commit(replace(history[3], run="asleep"))
    assert asleep.state is not None
    assert asleep.state.epoch == 2
    assert seen(Ledger(tmp_path).state or asleep.state, history) == naive(history)
    assert not (tmp_path / "epoch-00000003.json").exists()


def test_a_runner_that_slept_is_noticed_by_its_full_state(tmp_path: Path, often: None) -> None:
    """As above, with a full state of its own, beside which the pruning runner wrote a newer one."""
    source = records(Random(2))
    awake = Ledger(tmp_path)
    history = [next(source) for _ in range(14)]
    for record in history[:6]:
        awake.commit(record)
    asleep = Ledger(tmp_path)
    for record in history[6:]:
        awake.commit(record)
    awake.prune(13)
    with pytest.raises(PipelineHeldError):
        asleep.commit(replace(history[6], run="asleep"))
    assert not (tmp_path / "epoch-00000006.json").exists()


def test_commits_and_prunings_list_no_folder(tmp_path: Path, often: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Except once per full state; files that another process left behind are then deleted too."""
    source, ledger = records(Random(4)), Ledger(tmp_path)
    for _ in range(6):
        ledger.commit(next(source))
    ledger.prune(5)
    listed = list[object]()
    real = Ledger._numbers

    def numbers(ledger: Ledger, pattern: Any) -> list[int]:
        listed.append(pattern)
        return real(ledger, pattern)

    monkeypatch.setattr(Ledger, "_numbers", numbers)
    for number in range(6, 10):
        ledger.commit(next(source))
        ledger.prune(number)
    assert not listed
    (tmp_path / "epoch-00000001.json").write_text("{}")
    ledger.commit(next(source))
    ledger.prune(10)
    assert [path.name for path in tmp_path.iterdir()] == ["state-00000010.json"]


def test_a_pruning_that_failed_half_way_is_done_again(
    tmp_path: Path, often: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was deleted is not read again, and the others are collected."""
    source, ledger = records(Random(4)), Ledger(tmp_path)
    for _ in range(6):
        ledger.commit(next(source))
    unlink, calls, collected = Path.unlink, count(), list[object]()

    def limited(path: Path, *, missing_ok: bool = False) -> None:
        if path.name.startswith("epoch-") and next(calls) == 2:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", limited)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        ledger.prune(5, collect=collected.append)
    ledger.prune(5, collect=collected.append)
    assert [path.name for path in tmp_path.iterdir()] == ["state-00000005.json"]
    assert len(collected) >= 6


@pytest.mark.parametrize("instant", range(12))
def test_the_ledger_is_read_while_a_runner_writes_and_deletes(
    tmp_path: Path, often: None, monkeypatch: pytest.MonkeyPatch, instant: int
) -> None:
    """Every read returns a committed state, never an older or empty one, and never fails."""
    source = records(Random(3))
    history = [next(source) for _ in range(14)]
    runner = Ledger(tmp_path)
    for record in history[:4]:
        runner.commit(record)
    looks = count()

    def meanwhile() -> None:
        if next(looks) == instant:
            for record in history[4:]:
                runner.commit(record)
            runner.prune(13)

    def listed(ledger: Ledger, pattern: Any, real: Any = Ledger._numbers) -> list[int]:
        if ledger is not runner:
            meanwhile()
        return list(real(ledger, pattern))

    def read(ledger: Ledger, name: str, real: Any = Ledger._read) -> Any:
        if ledger is not runner:
            meanwhile()
        return dict(real(ledger, name))

    monkeypatch.setattr(Ledger, "_numbers", listed)
    monkeypatch.setattr(Ledger, "_read", read)
    reader = Ledger(tmp_path)
    state = reader.state
    assert state is not None
    assert seen(state, history[: state.epoch + 1]) == naive(history[: state.epoch + 1])
    assert all(record in history for record in reader.kept_epochs())
    assert next(looks) > instant, "nothing was written meanwhile"


@pytest.mark.parametrize("missing", [0, 2])
def test_a_gap_is_an_error(tmp_path: Path, missing: int) -> None:
    """Nothing is published on an unproved state."""
    source, ledger = records(Random(3)), Ledger(tmp_path)
    for _ in range(5):
        ledger.commit(next(source))
    (tmp_path / f"epoch-{missing:08d}.json").unlink()
    with pytest.raises(LedgerError, match="must follow"):
        Ledger(tmp_path)


def test_a_damaged_file_is_an_error(tmp_path: Path) -> None:
    """The error names the file."""
    ledger = Ledger(tmp_path)
    ledger.commit(next(records(Random(4))))
    (tmp_path / "epoch-00000000.json").write_text("{", encoding="utf-8")
    with pytest.raises(LedgerError, match=r"epoch-00000000\.json cannot be read"):
        Ledger(tmp_path)


def test_an_epoch_for_a_table_that_was_never_planned_is_an_error() -> None:
    """The table would have no columns and no chunks."""
    record = next(records(Random(5)))
    with pytest.raises(LedgerError, match="never planned"):
        apply(None, replace(record, tables={**record.tables, "shop.x": TableChange()}))


@given(st.lists(st.sampled_from(range(40)), unique=True), st.integers(1, 5))
def test_finished_chunks_are_kept_as_ranges(numbers: list[int], size: int) -> None:
    """Closed, sorted, not touching, the same in whatever order chunks finish; key ranges are joined."""
    chunks = [Chunk(n, Range((str(n),) if n else None, (str(n + 1),) if n < 39 else None)) for n in range(40)]
    coverage = Coverage().split(chunks, (), 40)
    for first in range(0, len(numbers), size):
        coverage = coverage.finish(numbers[first : first + size])
    assert [n for a, b in coverage.finished for n in range(a, b + 1)] == sorted(numbers)
    assert all(b + 1 < c for (_, b), (c, _) in pairwise(coverage.finished))
    joined = sorted(int(run.lower[0]) if run.lower else 0 for run in coverage.runs)
    assert joined == [a for a, _ in coverage.finished]


def test_a_chunk_that_was_read_to_a_nearer_bound_leaves_a_rest() -> None:
    """Its epoch records the new bounds and the unsplit rest; the table is complete only after the rest."""
    coverage, _ = unsplit_table(Plan("t", 9, 9, ("k",), "i", "0", "9", None, "one", "", 5, 1)).after(
        Split(Unsplit(0, WHOLE, "whole"), (WHOLE,), None)
    )
    shortened = coverage.shortened(0, Range(None, ("5",)))
    split = split_as_dict([Chunk(0, Range(None, ("5",)))], shortened)
    chunk = {"chunk": 0, "exact": POSITION, "files": [], "rows": 4, "nulled": {}}
    change = {"planned": planned("t", "one", 1), "split": split, "chunks": [chunk]}
    state = apply(None, epoch_zero({"t": json.loads(json.dumps(change))}))
    table = state.tables["t"]
    assert table.coverage.runs == (Range(None, ("5",)),)
    assert table.coverage.unsplit == shortened.unsplit == (Unsplit(1, Range(("5",), None), "walk", 0),)
    del split["parents"]  # as an earlier version wrote it
    earlier = apply(None, epoch_zero({"t": json.loads(json.dumps(change))}))
    assert earlier.tables["t"].coverage.unsplit[0].parent is None
    assert (table.copied, table.state, table.chunks, state.copied) == (False, "copying", 2, False)


def test_a_ledger_of_an_earlier_version_is_refused(tmp_path: Path) -> None:
    """An epoch 0 whose plans list chunks, and a full state without coverage: nothing is guessed."""
    old = {"table": "shop.t0", "chunks": [{"index": 0, "lower": None, "upper": None}]}
    with pytest.raises(LedgerError, match="by an earlier version"):
        apply(None, epoch_zero({"shop.t0": {"planned": {"table": {}, "plan": old}}}))
    table = {"table": {}, "plan": old, "finished": [[0, 3]], "rows_read": 9, "changes_applied": 0, "stopped": None}
    full = {
        "epoch": 5,
        "ledger": "l",
        "identity": "i",
        "position": POSITION,
        "next_seq": 1,
        "tables": {"shop.t0": table},
    }
    (tmp_path / "state-00000005.json").write_text(json.dumps(full), encoding="utf-8")
    with pytest.raises(LedgerError, match="by an earlier version") as raised:
        Ledger(tmp_path)
    assert "Continue with the version that began this pipeline" in raised.value.hint


def test_what_is_published_of_a_table_is_part_of_its_state() -> None:
    """The projection at its addition, then after each alteration and each new copy; a full state keeps it."""
    joins = {**planned("t", "one", 1), "projection": {"rules": "a"}}
    epochs: list[Any] = [{"planned": joins}]
    epochs += [
        {kind: {**planned("t", "one", 1), "projection": projection}}
        for kind, projection in (("altered", {"rules": "b"}), ("resnapshot", None))
    ]
    state, projections = None, []
    for epoch, change in enumerate(epochs):
        common: Any = {
            "run": "r",
            "ts": "",
            "from": POSITION,
            "to": POSITION,
            "next_seq": 1,
            "ledger": "L",
            "identity": "i",
        }
        state = state_from_json(
            state_to_json(apply(state, epoch_from_json(common | {"epoch": epoch, "tables": {"t": change}})))
        )
        projections.append(state.tables["t"].projection)
    assert projections == [{"rules": "a"}, {"rules": "b"}, None]


@pytest.mark.parametrize(("way", "left"), [({"binlog_off": {}}, {}), ({"identity": "another"}, {"i": "2026-01-31"})])
def test_a_gap_in_the_binlog_is_remembered(way: dict[str, Any], left: dict[str, str]) -> None:
    """Until all tables are resnapshotted from that server. A full state keeps it."""
    common: Any = {"run": "r", "ts": "", "from": POSITION, "to": POSITION, "next_seq": 1, "tables": {}}
    state, seen = None, []
    for epoch, facts in enumerate([{"ledger": "L", "identity": "i"}, {"binlog_off": {"i": "2026-01-31"}}, {}, way]):
        state = state_from_json(state_to_json(apply(state, epoch_from_json(common | {"epoch": epoch} | facts))))
        seen.append(state.binlog_off)
    assert seen == [{}, {"i": "2026-01-31"}, {"i": "2026-01-31"}, left]


def epoch_zero(tables: Any) -> EpochRecord:
    """The first epoch. tables: as JSON."""
    own = {"epoch": 0, "run": "r", "ts": "", "from": POSITION, "to": POSITION, "next_seq": 0}
    return epoch_from_json({**own, "ledger": "L", "identity": "s", "tables": tables})


def one_more(state: State, tables: Any) -> EpochRecord:
    """The next epoch. tables: as JSON."""
    return following(state, "r", {name: change_from_json(change) for name, change in tables.items()})


def test_a_resnapshot_that_was_decided_stays_until_it_begins(tmp_path: Path) -> None:
    """Across a stop, a restart and a full state; a resnapshot begins it, a removal or a verdict forgets it."""
    due: Any = {"at": "2026-01-01T00:00:00.000000Z", "by": None, "why": None}
    state = apply(None, epoch_zero({"d.t": {"planned": planned("t", "one", 1)}}))
    state = apply(state, one_more(state, {"d.t": {"due": due}}))
    state = apply(state, one_more(state, {"d.t": {"stopped": {"error": "E", "message": "", "detail": "", "hint": ""}}}))
    state = state_from_json(json.loads(json.dumps(state_to_json(state))))
    assert state.tables["d.t"].due == Due(**due)
    switch = {**planned("t", "one", 1), "before": {"name": "t"}}
    for change in ({"resnapshot": switch}, {"removed": {"by": None, "drop": False}}, {"due": None}):
        after = apply(state, one_more(state, {"d.t": change})).known("d.t")
        assert after is not None
        assert after.due is None


def test_automatic_resnapshots_of_the_last_hour_are_counted() -> None:
    """An operator's resnapshot begins the count from zero."""
    state = apply(None, epoch_zero({"d.t": {"planned": planned("t", "one", 1)}}))
    times = [f"2026-01-01T{hour}:00.000000Z" for hour in ("00:00", "00:40", "01:20", "01:30")]
    for at in times:
        switch = {**planned("t", "one", 1), "before": {"name": "t"}, "automatic": at}
        state = apply(state, one_more(state, {"d.t": {"resnapshot": switch}}))
    state = state_from_json(json.loads(json.dumps(state_to_json(state))))
    assert state.tables["d.t"].resnapshots == tuple(times[1:])
    assert latest_resnapshots(state.tables["d.t"], "2026-01-01T02:25:00.000000Z") == (times[3],)
    switch = {**planned("t", "one", 1), "before": {"name": "t"}}
    state = apply(state, one_more(state, {"d.t": {"resnapshot": switch}}))
    assert state.tables["d.t"].resnapshots == ()
