"""The status shows who takes care of an alert."""

from io import StringIO
from pathlib import Path

from rich.console import Console

from engine.alerting.acknowledgements import acknowledge, occurrence
from engine.pipeline.directory import Directory
from engine.pipeline.saved_lists import list_text
from engine.status.status import status
from engine.status.status_text import print_status


def test_an_acknowledged_alert_names_the_operator(tmp_path: Path) -> None:
    """In the JSON, and as text."""
    where = Directory(tmp_path)
    alert = {"kind": "lag", "table": None, "value": 75.2, "since": "2026-01-31T15:30:17.000000Z"}
    more = {"message": "The pipeline is 75 s behind.", "hint": "Resume it."}
    where.alerts.write_text(list_text("alerts", [alert | more]))
    assert [one["acknowledged"] for one in status(where, "shop")["alerts"]] == [None]
    made = acknowledge(where, alert, actor="ada", note="index rebuild")
    found = status(where, "shop")
    assert found["alerts"][0]["acknowledged"] == {"actor": "ada", "at": made.at, "note": "index rebuild"}
    out = StringIO()
    print_status(Console(file=out, width=200), found)
    assert f"behind. Resume it. Acknowledged by ada at {made.at[:19]}Z." in out.getvalue()


def test_an_acknowledgement_of_a_newer_version_hides_no_status(tmp_path: Path) -> None:
    """The alert then counts as not acknowledged."""
    where = Directory(tmp_path)
    alert = {
        "kind": "lag",
        "table": None,
        "value": 75.2,
        "since": "2026-01-31T15:30:17.000000Z",
        "message": "",
        "hint": "",
    }
    where.alerts.write_text(list_text("alerts", [alert]))
    acknowledge(where, alert, actor="ada")
    (tmp_path / "acknowledged" / f"{occurrence(alert)}.json").write_text('{"format": 9}')
    assert [one["acknowledged"] for one in status(where, "shop")["alerts"]] == [None]
