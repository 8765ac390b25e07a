"""The ledger's files: what was written before is read, and is written again byte for byte.

`written_before.jsonl` has a file a line, each with other fields than the others. Most were written by commit 034f5a98
on real servers; the last twelve by its functions, for sinks, lineages and reduced epochs. Folders were replaced,
and positions completed that only tests had left incomplete.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from engine.ledger.record_json import (
    change_from_json,
    change_to_json,
    epoch_from_json,
    epoch_to_json,
    state_from_json,
    state_to_json,
)
from engine.ledger.records import NOTHING, SinkNews, TableChange
from engine.pipeline import formats

FILES = Path(__file__).with_name("written_before.jsonl").read_text(encoding="utf-8").splitlines()
CHANGES = [one for line in FILES if "run" in json.loads(line) for one in json.loads(line)["tables"].values()]


@pytest.mark.parametrize("line", FILES)
def test_what_was_written_before_is_written_again(line: str) -> None:
    """Epochs and full states, byte for byte, so that an older version reads them too."""
    record = json.loads(line)
    kind = "epoch" if "run" in record else "state"
    again = epoch_to_json(epoch_from_json(record)) if kind == "epoch" else state_to_json(state_from_json(record))
    assert json.dumps(formats.stamped(kind, again), ensure_ascii=False) == line


@pytest.mark.parametrize(
    "name",
    [
        "split",
        "chunks",
        "changes",
        "planned",
        "altered",
        "resnapshot",
        "stopped",
        "due",
        "copied",
        "removed",
        "dropped",
    ],
)
def test_every_part_of_a_change_was_written_before(name: str) -> None:
    """So the test above is about all of them."""
    assert any(name in change for change in CHANGES)


@pytest.mark.parametrize(("change", "due", "not_due"), [({}, None, False), ({"due": None}, None, True)])
def test_a_resnapshot_that_is_not_needed_any_more_is_no_absent_one(change: Any, due: None, not_due: bool) -> None:
    """One forgets the resnapshot that was decided, the other leaves it as it is."""
    found = change_from_json(change)
    assert (found.due, found.not_due) == (due, not_due)
    assert change_to_json(found) == change


@pytest.mark.parametrize("more", [{}, {"given_up": True}])
def test_what_an_operator_gave_up_is_written_only_then(more: dict[str, bool]) -> None:
    """So that the other resnapshots are read by older versions as they were."""
    change = next(one for one in CHANGES if "resnapshot" in one)
    given_up = change | {"resnapshot": change["resnapshot"] | more}
    found = change_from_json(given_up)
    assert found.resnapshot is not None
    assert found.resnapshot.is_given_up == bool(more)
    assert change_to_json(found) == given_up


def test_a_table_that_an_epoch_does_not_concern_is_not_changed() -> None:
    """Its change has no switches, no files, and no fields to write."""
    assert change_to_json(NOTHING) == {}
    assert (NOTHING.switches, NOTHING.written, NOTHING.change_files) == ((), (), ())
    assert NOTHING == TableChange() == change_from_json({})


def test_a_sink_without_news_has_none() -> None:
    """Nothing is committed of it."""
    assert not SinkNews()
    assert SinkNews({"shop.orders": {"chunks": 1}})
