"""`status`, the light of Live and Table, and the page Verify say the same of a table, in each of its states."""

import json
from dataclasses import replace
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from app.common import data_light, home
from app.common.view import verification
from engine.base import clock
from engine.base.errors import MismatchError
from engine.destination.agreement import Comparison
from engine.destination.missing_epochs import MissingEpochs
from engine.explore.table_facts import committed_facts, facts_of
from engine.history import table_queries
from engine.journal.verification_summary import Summary, Unreadable
from engine.ledger.store import Ledger
from engine.pipeline.directory import Directory
from engine.pipeline.table_verdict import CHANGES_ONLY, NO_KEY, TableFacts, incomparable
from engine.pipeline.verification_records import ForeignChanges, MirrorLogs
from engine.pipeline.verifications import save, save_mirror_logs
from engine.spec.settings import load
from engine.status.status import status
from engine.status.status_text import print_status
from tests.support.verified import VERIFIED
from tests.unit.destination.support import OLD, PLAN, SPEC, WHOLE_SPLIT, World, publish_story, switch

SINCE = "2026-01-31T15:00:09.000000Z"
GONE: Any = Unreadable(at=SINCE, why="a file is gone", hint="Resnapshot it.", chunks=[])
SAVED: dict[str, Summary | None] = {
    "never": None,
    "half": replace(VERIFIED, at="", parts=5),
    "repaired": replace(VERIFIED, at="", parts=0, compared=0),
    "differs": replace(VERIFIED, verdict="diverged", differences=2),
    "gone": replace(VERIFIED, verdict="unverifiable", why="a file is gone", unreadable=GONE),
    "old": replace(VERIFIED, at="2020-01-01T00:00:00Z"),
}


def now_verified() -> Summary:
    """All rows were compared a moment ago."""
    at = clock.utc_text()
    return replace(VERIFIED, at=at, last=at)


def made(folder: Path, case: str) -> Directory:
    """A pipeline without a runner whose table is in this state."""
    where, world = Directory(folder), World(folder, "merge_on_read")
    (folder / "pipeline.toml").write_text(SPEC.replace('"lake"', f'"{folder / "lake"}"'))
    world.epoch(planned={"table": OLD.as_dict(), "plan": PLAN.as_dict()})
    world.epoch(split=WHOLE_SPLIT, chunks=[world.chunk(OLD, [(1, 1)])], copied=True)
    publish_story(world, folder, ())
    if case == "lacks":
        world.epoch(changes=world.changes(OLD, [("+I", 4, 4)]))
    elif case == "resnapshotted":
        world.epoch(resnapshot=switch(OLD, OLD))
    elif case == "stopped":
        world.epoch(stopped={"error": "TableStoppedError", "message": "no", "detail": "", "hint": ""})
    for record in world.records[2:]:
        Ledger(where.ledger).commit(replace(record, ts=SINCE))
    summary = SAVED.get(case, now_verified())
    save(where, {"d.t": summary} if summary else {}, [])
    if case == "mismatched":
        with pytest.raises(MismatchError) as raised:
            Comparison(tables={"d.t": "a file is gone"}).require([], resnapshots_all=False)
        ended = {"format": 1, "run": "r", "state": "ended", "heartbeat": "2126-01-31T15:00:09.000000Z"}
        where.runner.write_text(json.dumps({**ended, "error": raised.value.to_record().to_json()}))
    if case == "written":
        save_mirror_logs(where, MirrorLogs(versions={"d.t": 9}, foreign={"d.t": ForeignChanges(commits=1, version=9)}))
    return where


def in_status(where: Directory) -> str:
    """What `status` has in the column "verified"."""
    screen, spec = StringIO(), load(where.spec)
    now = status(where, "shop", spec.verify, spec.sink)
    print_status(Console(file=screen, width=400), now)
    heads, row = (line for line in screen.getvalue().splitlines() if line.startswith(("table", "d.t  ")))
    return row[heads.index("verified") :].strip()


@pytest.mark.parametrize(
    ("case", "label", "why"),
    [
        ("verified", "Verified", ""),
        ("never", "Not verified", "not compared yet"),
        ("half", "Not verified", "1 of 5 parts were compared so far"),
        ("repaired", "Not verified", "none of its parts were compared since"),
        ("old", "Not verified", "verified too long ago"),
        ("lacks", "Not verified", "its mirror lacks changes since 2026-01-31 15:00:09 UTC"),
        ("resnapshotted", "Not verified", "resnapshotted since"),
        ("stopped", "Not verified", "stopped"),
        (
            "mismatched",
            "Not verified",
            "its destination is not what the ledger has published since 2126-01-31 15:00:09 UTC",
        ),
        ("written", "Not verified", "another program changed its mirror"),
        ("differs", "2 rows differ", ""),
        ("gone", "Mirror cannot be read", "a file is gone"),
    ],
)
def test_all_say_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str, label: str, why: str) -> None:
    """No runner is alive: what it has committed and not published counts too."""
    where, now = made(tmp_path, case), clock.utc_now()
    monkeypatch.setattr(home, "ask", lambda query, *_: ["d.t"] if query is table_queries.captured else [])
    (row,) = verification.table_rows(data_light.tables_of(where, now))
    assert (row["State"], row["Why"].lower()) == (label, why.lower())
    cell = in_status(where)
    assert cell.startswith(label.lower())
    assert why in cell
    for light in (
        data_light.layer_of(where, now, current=False),
        data_light.table_layer(where, "d.t", now, current=False),
    ):
        assert light.headline in (label, "Not verified yet" if case == "never" else "", "1 mirror cannot be read")
        assert case in ("verified", "never", "differs", "gone") or light.details == (why,)


def test_a_table_without_a_key_is_known_not_to_be_comparable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its plan, before any comparison; so it is none of those that are to be compared."""
    where = made(tmp_path, "never")
    state = Ledger(where.ledger).state
    assert state is not None
    keyless = {**state.tables["d.t"].table, "key": []}
    log_only = replace(state, tables={"d.log": replace(state.tables["d.t"], table=keyless)})
    assert facts_of(where, log_only, {}, copies=True, mirrors=True)["d.log"].incomparable == NO_KEY
    assert incomparable(mirrors=True, key=True, copies=True) == ""
    known = {"d.t": TableFacts(now_verified()), "d.log": TableFacts(incomparable=NO_KEY)}
    found = verification.tables_of(known, load(where.spec).verify, clock.utc_now())
    assert {one.table: one.label for one in found} == {"d.t": "Verified", "d.log": "Cannot be verified"}
    light = verification.layer(found, clock.utc_now())
    assert (light.headline, light.colour, light.details[1]) == ("Verified", "green", "1 table cannot be verified")
    log = next(one for one in found if one.table == "d.log")
    assert verification.none_differ(log) == f"The rows of this table cannot be compared: {NO_KEY}."
    half = {"d.t": TableFacts(), "d.u": TableFacts(now_verified()), "d.log": TableFacts(incomparable=NO_KEY)}
    light = verification.layer(
        verification.tables_of(half, load(where.spec).verify, clock.utc_now()), clock.utc_now(), continuous=True
    )
    assert light.details[0] == "1 of 2 tables compared so far"
    copies = facts_of(where, state, {"d.t": MissingEpochs(SINCE, 1)}, copies=False, mirrors=True)
    assert (copies["d.t"].incomparable, copies["d.t"].lacks_since) == (CHANGES_ONLY, SINCE)


def test_the_ledger_is_read_again_after_a_few_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not with each refresh of a page."""
    where, read = made(tmp_path, "verified"), list[Directory]()
    monkeypatch.setattr(home, "ask", lambda query, *_: ["d.t"] if query is table_queries.captured else [])

    def counted(directory: Directory, *rest: Any) -> dict[str, TableFacts]:
        read.append(directory)
        return committed_facts(directory, *rest)

    monkeypatch.setattr(data_light, "committed_facts", counted)
    seconds = 0.0
    monkeypatch.setattr(clock, "monotonic_s", lambda: seconds)
    for _ in range(3):
        data_light.tables_of(where, clock.utc_now() + timedelta(seconds=1))
    assert len(read) == 1
    seconds = 60.0
    data_light.tables_of(where, clock.utc_now())
    assert len(read) == 2
