"""`status --json` of several pipelines, byte for byte: scripts read it (docs/command-line.md).

`golden/` was written before the status had types. A new field adds a line to each file.
"""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from engine.alerting.acknowledgements import acknowledge
from engine.alerting.silences import add_silence
from engine.base import clock
from engine.base.errors import TransientError
from engine.journal import Journal
from engine.journal.connection_events import ReadsBlocked
from engine.journal.destination_events import SpaceMeasured
from engine.journal.events import EpochCommitted, LagMeasured
from engine.ledger.store import Ledger
from engine.pipeline.active_alert import Alert
from engine.pipeline.command_file import send_command
from engine.pipeline.controls import Controls
from engine.pipeline.directory import Directory
from engine.pipeline.helpers import HelperFailure
from engine.pipeline.saved_lists import ParkedRead, list_text
from engine.pipeline.verification_records import LastAudit
from engine.pipeline.verifications import save, save_audit
from engine.pipeline.write_outage import WriteOutage
from engine.run.commands.heartbeat import Activity, Heartbeat
from engine.run.source_loss.outage import Outage
from engine.status.status import status
from engine.status.status_records import Status
from engine.status.status_text import print_status
from engine.watch.record import WatchRecord, write_record
from tests.support.verified import VERIFIED
from tests.unit.destination.support import OLD, PLAN, WHOLE_SPLIT, World, publish_story, switch

GOLDEN = Path(__file__).parent / "golden"
PARENT = Path(__file__).parents[1] / "pipeline" / "parent_format"
IDENTITY = re.compile(r"\b[0-9a-f]{12}\b")
"""Of a command or a silence."""
NOW, BEFORE = "2026-01-31T15:30:17.000000Z", "2026-01-31T15:00:09.000000Z"
ERROR = {"error": "TableStoppedError", "message": "no", "detail": "", "hint": "Resnapshot it."}


@pytest.fixture(autouse=True)
def _frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "utc_now", lambda: datetime(2026, 1, 31, 15, 30, 17, tzinfo=UTC))
    monkeypatch.setattr(clock, "sleep", lambda _: None)


def as_json(found: Status) -> str:
    """What `status --json` prints, indented, without what differs from test to test."""
    record = found.to_json()
    record["sizes"] = dict.fromkeys(record["sizes"], 0)
    return IDENTITY.sub("ID", json.dumps(record, ensure_ascii=False, indent=1, default=str) + "\n")


def as_text(found: Status) -> str:
    """As `status` prints it, without the sizes of files."""
    screen = StringIO()
    print_status(Console(file=screen, width=200), found)
    lines = [line.rstrip() for line in screen.getvalue().splitlines() if not line.startswith("the pipeline's files: ")]
    return IDENTITY.sub("ID", "\n".join(lines) + "\n")


def beat(where: Directory, activity: Activity, **more: Any) -> None:
    """Write `runner.json` as a runner of another machine would."""
    usual: dict[str, Any] = {"reason": "", "stop": False}
    usual |= {"helpers": [], "controls": Controls().as_dict(), "commands": [], "error": None}
    Heartbeat(where, "r1").beat(activity, **usual | {"state": "running"} | more)
    record = json.loads(where.runner.read_text())
    where.runner.write_text(json.dumps({**record, "host": "db", "pid": 4100, "process": {}}))


def new(where: Directory) -> Status:
    """Never started."""
    where.root.mkdir(exist_ok=True)
    return status(where, "shop")


def parents(where: Directory) -> Status:
    """Lost, and written by an earlier version."""
    shutil.copytree(PARENT, where.root)
    return status(where, "shop")


def commit(where: Directory, world: World, *changes: dict[str, Any]) -> None:
    """Commit epochs that are not published."""
    known = len(world.records)
    for change in changes:
        world.epoch(**change)
    for record in world.records[known:]:
        Ledger(where.ledger).commit(replace(record, ts=BEFORE))


def copied(where: Directory) -> World:
    """A copied and published table."""
    where.root.mkdir(exist_ok=True)
    world = World(where.root, "merge_on_read")
    world.epoch(planned={"table": OLD.as_dict(), "plan": PLAN.as_dict()})
    world.epoch(split=WHOLE_SPLIT, chunks=[world.chunk(OLD, [(1, 1)])], copied=True)
    publish_story(world, where.root, ())
    return world


def alert(kind: str, table: str | None = None) -> dict[str, Any]:
    """An active alert, as its file has it."""
    made = Alert(kind, table, 75.2, 60.0, f"The alert {kind}.", "Resume it.", BEFORE, BEFORE)
    return asdict(made)


def live(where: Directory) -> Status:
    """Alive, with whatever a runner can report."""
    world = copied(where)
    commit(where, world, {"changes": world.changes(OLD, [("+I", 4, 4)])})
    commit(
        where, world, {"resnapshot": switch(OLD, OLD, replace(PLAN, mirror="copy_on_write"))}, {"split": WHOLE_SPLIT}
    )
    journal = Journal(where.journal("r1"), "r1")
    journal.write(SpaceMeasured(folder="lake", free_bytes=10, total_bytes=30, growth_per_day=1.5, full_in_s=None))
    kinds = {"d.t": [61, 2, 2, 0]}
    journal.write(
        EpochCommitted(
            epoch=2,
            from_position="b.1:4",
            to_position="b.1:9",
            changes=65,
            kinds={},
            tables={},
            table_kinds=kinds,
            transactions=1,
            bytes=9,
            chunks=0,
            timings={},
        )
    )
    journal.write(
        LagMeasured(
            position="b.1:9",
            source_position="b.1:21",
            lag_s=0.4,
            lag_bytes=12,
            runway_s=86400.0,
            percentiles={"p50": 0.3, "max": 1.0},
            log_freshness={"p50": 0.2, "p99": 0.9},
            mirror_freshness={"p50": 1.8, "p99": 4.5},
            mirror_age_s=3.0,
            mirror_oldest="d.t",
        )
    )
    journal.close()
    away = Outage(BEFORE, 3, NOW, "Nobody answers.", None)
    session = {"connection": 7, "user": "ada", "host": "h", "role": "holds", "lock": "", "since": BEFORE}
    blocked = ReadsBlocked(
        table="d.t",
        since=BEFORE,
        seconds=3.0,
        lock="table metadata lock",
        reads=1,
        sessions=[{**session, "idle": True, "statement": "SELECT 1"}],
    )
    drift = {"what": "setting", "name": "binlog_format", "before": "ROW", "after": "MIXED", "seen": NOW}
    activity = Activity(
        phase="snapshot",
        waiting_for="paused by command",
        away=asdict(away),
        reading={"d.t": {"chunks": [0], "since": BEFORE, "rows": 40}},
        source={"compared": NOW, "facts": 80, "changes": [drift]},
        blocked=[blocked.to_json()],
    )
    controls = Controls({"max_rows_per_s": 9}, snapshot=True, tables=("d.t",), until=NOW)
    beat(
        where,
        activity,
        unwritten=WriteOutage("disk", "disk full (log)", "Free it.", BEFORE, 1),
        helpers=[asdict(HelperFailure("audit", "OSError", "It failed.", BEFORE, 3))],
        controls=controls.as_dict(),
        commands=[{"id": "c1", "verb": "redump"}],
    )
    parked = ParkedRead("d.t", 0, [None, None], None, None, "TransientError", "no", "Do.", 8, BEFORE)
    where.parked.write_text(list_text("parked", [asdict(parked)]))
    return status(where, "shop", sink=world.sink(0.0))


def failed(where: Directory) -> Status:
    """Failed, with a table that has stopped and one that was removed, alerts, a queue and a watchdog."""
    world = copied(where)
    commit(where, world, {"changes": world.changes(OLD, [("+I", 4, 4)])}, {"stopped": ERROR})
    error = TransientError("The source is gone.", detail="Nothing was lost.", hint="Start it.")
    beat(where, Activity(phase="streaming"), state="ended", error=error.as_dict())
    known = [alert("run_failed"), alert("table_stopped", "d.t"), alert("lag")]
    where.alerts.write_text(list_text("alerts", known))
    acknowledge(where, Alert(**known[1]), actor="ada", note="I know")
    add_silence(where, "2h", "migration", kind="lag", actor="bob")
    send_command(where, "redump", arguments={"tables": ["d.t"]}, actor="ada", reason="why")
    write_record(where, WatchRecord(run="r1", due=NOW))
    save(where, {"d.t": replace(VERIFIED, differences=2, verdict="diverged", position="b.1:4")}, [])
    save_audit(where, LastAudit(BEFORE, 1, 1204, 0, "b.1:4", "b.1:9", {}, {"d.t": 0}, "s"))
    return status(where, "shop", sink=world.sink(0.0))


def removed(where: Directory) -> Status:
    """Stopped by an operator, with a table that was removed and is being dropped."""
    world = copied(where)
    commit(where, world, {"removed": {"by": "c1", "drop": True}})
    beat(where, Activity(phase="streaming"), state="ended", stop=True)
    return status(where, "shop", copies=False)


CASES = [new, parents, live, failed, removed]


@pytest.mark.parametrize("case", CASES)
def test_the_json_stays_as_it_is(tmp_path: Path, case: Callable[[Directory], Status]) -> None:
    """All keys, their order and their values."""
    found = as_json(case(Directory(tmp_path / "shop")))
    assert found == (GOLDEN / f"{case.__name__}.json").read_text()


@pytest.mark.parametrize("case", CASES)
def test_the_text_stays_as_it_is(tmp_path: Path, case: Callable[[Directory], Status]) -> None:
    """All lines that `status` prints, but for the sizes of files."""
    found = as_text(case(Directory(tmp_path / "shop")))
    assert found == (GOLDEN / f"{case.__name__}.txt").read_text()
