"""The ledger: records make the state, one runner commits an epoch, and nothing that is needed is ever deleted."""

import json
from collections.abc import Iterator
from itertools import count, pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import LedgerError, PipelineHeldError
from engine.ledger import store
from engine.ledger.state import State, apply, ranges, state_from_dict, state_to_dict
from engine.ledger.store import Ledger

_folders = count()


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full state every five epochs."""
    monkeypatch.setattr(store, "FULL_STATE_EVERY", 5)


def records(rng: Random) -> Iterator[dict[str, Any]]:
    """Epochs as a coordinator makes them."""
    chunks: dict[str, list[int]] = {}
    seq = 0
    for epoch in count():
        tables: dict[str, Any] = {}
        if epoch == 0 or rng.random() < 0.1:
            name = f"shop.t{len(chunks)}"
            chunks[name] = list(range(rng.randrange(1, 9)))
            tables[name] = {"planned": {"table": {"name": name}, "plan": {"chunks": [{}] * len(chunks[name])}}}
        for name, left in chunks.items():
            change = tables.setdefault(name, {})
            taken = [left.pop(rng.randrange(len(left))) for _ in range(min(len(left), rng.randrange(3)))]
            if taken:
                change["chunks"] = [{"chunk": c, "exact": {}, "files": [], "rows": 10 + c} for c in taken]
            if rng.random() < 0.5:
                change["changes"] = {"files": [], "kinds": [rng.randrange(5) for _ in range(4)]}
                seq += sum(change["changes"]["kinds"])
            if rng.random() < 0.05:
                change["stopped"] = {"error": "DecodeError", "message": "ü"}
        yield {
            "epoch": epoch, "run": "r", "ts": "", "from": {"offset": epoch}, "to": {"offset": epoch + 1}, "next_seq": seq,
            "tables": tables, **({"identity": "uuid", "ledger": "l1"} if epoch == 0 else {}),
        }  # fmt: skip


def naive(history: list[dict[str, Any]]) -> dict[str, Any]:
    """The state, by looking at all records at once."""
    tables: dict[str, Any] = {}
    for name in {name for record in history for name in record["tables"]}:
        mine = [record["tables"][name] for record in history if name in record["tables"]]
        done = [chunk for change in mine for chunk in change.get("chunks", [])]
        stops = [change["stopped"] for change in mine if "stopped" in change]
        tables[name] = {
            "plan": next(change["planned"]["plan"] for change in mine if "planned" in change),
            "finished": {chunk["chunk"] for chunk in done},
            "rows_read": sum(chunk["rows"] for chunk in done),
            "changes_applied": sum(sum(change["changes"]["kinds"]) for change in mine if "changes" in change),
            "stopped": stops[-1] if stops else None,
        }
    return tables


def seen(state: State) -> dict[str, Any]:
    """A state in the words of `naive`."""
    names = ("plan", "finished", "rows_read", "changes_applied", "stopped")
    return {table: {name: getattr(facts, name) for name in names} for table, facts in state.tables.items()}


@given(st.integers(0, 2**32), st.integers(1, 30))
def test_replaying_records_gives_the_state(seed: int, epochs: int) -> None:
    """And a full state on the way changes nothing."""
    source = records(Random(seed))
    history = [next(source) for _ in range(epochs)]
    state = shortcut = None
    for record in history:
        state = apply(state, record)
        shortcut = state_from_dict(json.loads(json.dumps(state_to_dict(apply(shortcut, record)))))
    assert state is not None
    assert state == shortcut
    assert seen(state) == naive(history)
    assert (state.position, state.next_seq) == (history[-1]["to"], history[-1]["next_seq"])
    assert state.copied == all(t.copied or t.stopped is not None for t in state.tables.values())


@given(st.integers(0, 2**32))
@settings(max_examples=15)
def test_resuming_at_any_instant_gives_the_committed_state(tmp_path: Path, often: None, seed: int) -> None:
    """Commits, prunings, restarts and remains of crashes in any order: state and unapplied epochs are as if none had been."""
    rng, folder = Random(seed), tmp_path / str(next(_folders))
    ledger, history, applied = Ledger(folder), [], -1
    source = records(rng)
    for _ in range(25):
        act = rng.random()
        if act < 0.6:
            history.append(next(source))
            assert seen(ledger.commit(history[-1])) == naive(history)
        elif act < 0.75:
            applied = rng.randrange(applied, len(history)) if applied < len(history) else applied
            ledger.prune(applied)
        elif folder.is_dir():
            (folder / f".epoch-{len(history):08d}.json.9").write_text('{"epoch":', encoding="utf-8")
            (folder / f".state-{len(history):08d}.json.1").write_text("", encoding="utf-8")
            ledger = Ledger(folder)
        assert (ledger.state is None) == (not history)
        assert ledger.state is None or seen(ledger.state) == naive(history)
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
        second.commit({**record, "run": "another"})
    assert held.value.exit_code == 5
    assert Ledger(tmp_path).epoch(0)["run"] == "r"
    assert [path.name for path in tmp_path.iterdir()] == ["epoch-00000000.json"]


def test_a_runner_that_slept_through_a_pruning_commits_nothing(tmp_path: Path, often: None) -> None:
    """The file of its epoch is gone, so the name is free: a full state says that the epoch was committed."""
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
        asleep.commit({**history[3], "run": "asleep"})
    assert asleep.state is not None
    assert asleep.state.epoch == 2
    assert seen(Ledger(tmp_path).state or asleep.state) == naive(history)
    assert not (tmp_path / "epoch-00000003.json").exists()


@pytest.mark.parametrize("missing", [0, 2])
def test_a_gap_is_an_error(tmp_path: Path, missing: int) -> None:
    """Nothing is published on a state that is not proved."""
    source, ledger = records(Random(3)), Ledger(tmp_path)
    for _ in range(5):
        ledger.commit(next(source))
    (tmp_path / f"epoch-{missing:08d}.json").unlink()
    with pytest.raises(LedgerError, match="must follow"):
        Ledger(tmp_path)


def test_a_damaged_file_is_an_error(tmp_path: Path) -> None:
    """And names itself."""
    ledger = Ledger(tmp_path)
    ledger.commit(next(records(Random(4))))
    (tmp_path / "epoch-00000000.json").write_text("{", encoding="utf-8")
    with pytest.raises(LedgerError, match=r"epoch-00000000\.json cannot be read"):
        Ledger(tmp_path)


def test_an_epoch_for_a_table_that_was_never_planned_is_an_error() -> None:
    """It would have no columns and no chunks."""
    record = next(records(Random(5)))
    record["tables"]["shop.x"] = {"chunks": []}
    with pytest.raises(LedgerError, match="never planned"):
        apply(None, record)


@given(st.sets(st.integers(0, 60)))
def test_finished_chunks_are_kept_as_ranges(numbers: set[int]) -> None:
    """Closed, sorted, not touching, and the same numbers."""
    closed = ranges(numbers)
    assert {n for a, b in closed for n in range(a, b + 1)} == numbers
    assert all(b + 1 < c for (_, b), (c, _) in pairwise(closed))
