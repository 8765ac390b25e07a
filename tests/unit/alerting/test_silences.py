"""Silences: which alerts they cover, how they end, and what a damaged one does."""

import json
from datetime import timedelta
from pathlib import Path

import pytest

from engine.alerting.silences import Silence, add_silence, end_silence, silence_of, silences
from engine.base import clock
from engine.base.errors import SpecError
from engine.pipeline import formats
from engine.pipeline.active_alert import Alert
from engine.pipeline.directory import Directory


def alert(kind: str, table: str | None = None) -> Alert:
    """An alert of this name."""
    return Alert(kind, table)


def test_a_silence_covers_what_it_names_and_says_who_and_why(tmp_path: Path) -> None:
    """By kind, by tables, or all. The one that lasts longest is shown."""
    where = Directory(tmp_path)
    add_silence(where, "1h", "index rebuild", kind="lag", actor="ada")
    add_silence(where, "2h", "load test", table="shop.pay_*", actor="bob")
    found = silence_of(where, alert("lag"))
    assert found is not None
    assert (found.actor, found.reason, found.what) == ("ada", "index rebuild", "alerts of the kind lag")
    both = silence_of(where, alert("lag", "shop.pay_a"))
    assert both is not None
    assert (both.actor, both.what) == ("bob", "all alerts of shop.pay_*")
    assert silence_of(where, alert("table_stopped", "shop.pay_a")) == both
    assert silence_of(where, alert("table_stopped", "shop.orders")) is None
    assert silence_of(where, alert("run_failed")) is None
    everything = add_silence(where, "3h", "moving house")
    assert silence_of(where, alert("run_failed")) == everything
    assert [one.until for one in silences(where)] == sorted(one.until for one in silences(where))


def test_a_silence_ends_by_itself_and_by_hand() -> None:
    """At its time to the microsecond, by no program's doing."""
    now = clock.utc_now()
    one = Silence("x", "ada", "why", clock.utc_text(now), clock.utc_text(now + timedelta(hours=1)))
    assert one.covers(alert("lag"), clock.utc_text(now + timedelta(minutes=59)))
    assert not one.covers(alert("lag"), one.until)
    assert not one.covers(alert("lag"), clock.utc_text(now - timedelta(seconds=1)))


def test_who_ends_a_silence_is_kept(tmp_path: Path) -> None:
    """It can be ended once."""
    where = Directory(tmp_path)
    made = add_silence(where, "1h", "why")
    ended = end_silence(where, made.id, actor="bob")
    assert (ended.ended_by, silences(where)) == ("bob", [])
    assert json.loads((tmp_path / "silences" / f"{made.id}.json").read_text())["ended_by"] == "bob"
    with pytest.raises(SpecError, match="No silence"):
        end_silence(where, made.id)


@pytest.mark.parametrize(
    ("period", "reason", "more", "fault"),
    [
        ("1h", " ", {}, "needs a reason"),
        ("soon", "why", {}, "'soon' is not a period"),
        ("0s", "why", {}, "between a second and 366 days"),
        ("400d", "why", {}, "between a second and 366 days"),
        ("1h", "why", {"kind": "lagg"}, "the nearest is 'lag'"),
        ("1h", "why", {"table": "orders"}, "is not of the form database.table"),
    ],
)
def test_a_silence_that_makes_no_sense_is_refused(
    tmp_path: Path, period: str, reason: str, more: dict[str, str], fault: str
) -> None:
    """Nothing is written."""
    with pytest.raises(SpecError) as raised:
        add_silence(Directory(tmp_path), period, reason, **more)
    assert fault in raised.value.message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("damage", ["", "[]", '{"id": 7}', "newer"])
def test_a_damaged_silence_silences_nothing(tmp_path: Path, damage: str) -> None:
    """An alert too many is better than one that is lost."""
    where = Directory(tmp_path)
    made = add_silence(where, "1h", "why")
    path = tmp_path / "silences" / f"{made.id}.json"
    newer = {**json.loads(path.read_text()), formats.FIELD: formats.VERSIONS["silence"] + 1}
    path.write_text(json.dumps(newer) if damage == "newer" else damage)
    assert silence_of(where, alert("lag")) is None
    add_silence(where, "1h", "again")
    assert len(silences(where)) == 1


def test_a_silence_in_force_is_never_pruned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only old ones are."""
    monkeypatch.setattr("engine.alerting.silences._KEPT", 2)
    where = Directory(tmp_path)
    first = add_silence(where, "1h", "first")
    for n in range(4):
        end_silence(where, add_silence(where, "1h", str(n)).id)
    add_silence(where, "1h", "last")
    assert first.id in {one.id for one in silences(where)}
    assert len(list((tmp_path / "silences").iterdir())) == 3
