"""The light *Data*: what it costs, and when it changes."""

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from app.common import data_light, home
from engine.history import table_queries
from engine.journal.verification_summary import Summary
from engine.pipeline import verifications
from engine.pipeline.directory import Directory
from engine.pipeline.verification_records import ForeignChanges, MirrorLogs
from engine.pipeline.verifications import save, save_mirror_logs
from tests.support.verified import VERIFIED
from tests.unit.app.support import NOW


def test_tables_are_read_again_when_a_fact_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of them would cost a tenth of a second each time.

    A new table, a verification and its age show at once.
    """
    where, names, read, stopped = Directory(tmp_path), ["d.t"], [], list[str]()

    def read_summaries(directory: Directory) -> dict[str, Summary]:
        read.append(directory)
        return verifications.read_summaries(directory)

    monkeypatch.setattr(data_light, "read_summaries", read_summaries)
    monkeypatch.setattr(home, "ask", lambda query, *_: list(stopped if query is table_queries.stopped else names))

    def headline(now: datetime) -> str:
        return data_light.layer_of(where, now, current=True).headline

    assert [headline(NOW + timedelta(seconds=n)) for n in (0, 1, 60)] == ["Not verified yet"] * 3
    assert len(read) == 1
    save(where, {"d.t": VERIFIED}, [])
    assert [headline(NOW), headline(NOW + timedelta(days=13))] == ["Verified", "Verified"]
    assert len(read) == 3
    assert headline(NOW + timedelta(days=15)) == "Not verified", "older than twice the period"
    assert headline(NOW) == "Verified", "the clock was set back"
    names.append("d.u")
    assert headline(NOW) == "Verifying"
    assert data_light.table_layer(where, "d.t", NOW, current=True).headline == "Verified"
    assert data_light.table_layer(where, "d.gone", NOW, current=True).headline == "Not verified yet"
    assert len(read) == 7, "the last one for the table that is gone"
    stopped.append("d.t")
    light = data_light.table_layer(where, "d.t", NOW, current=True)
    assert (light.headline, light.colour, light.details) == ("Not verified", "gray", ("stopped",))


def test_a_mirror_that_another_program_changed_shows_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until it is verified at that version, also while no runner is alive."""
    where = Directory(tmp_path)
    monkeypatch.setattr(home, "ask", lambda query, *_: ["d.t"] if query is table_queries.captured else [])
    known: Summary = replace(VERIFIED, level="rows", version=3)

    def headline() -> str:
        return data_light.table_layer(where, "d.t", NOW, current=True).headline

    save(where, {"d.t": known}, [])
    assert headline() == "Verified"
    save_mirror_logs(where, MirrorLogs(versions={"d.t": 4}, foreign={"d.t": ForeignChanges(commits=1, version=4)}))
    assert headline() == "Not verified"
    save(where, {"d.t": replace(known, version=4)}, [])
    assert headline() == "Verified"


def test_a_table_that_differs_stays_when_the_journals_have_forgotten_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are kept for 90 days, and name a table's state only when it changes."""
    where = Directory(tmp_path)
    monkeypatch.setattr(home, "ask", lambda _query, _pipeline, also=(): [*also])
    save(where, {"d.t": replace(VERIFIED, verdict="diverged", differences=2)}, [])
    assert [one.table for one in data_light.tables_of(where, NOW)] == ["d.t"]
