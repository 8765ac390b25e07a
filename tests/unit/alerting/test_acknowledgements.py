"""An acknowledgement belongs to one occurrence of an alert, and needs no runner."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.alerting import acknowledgements
from engine.alerting.acknowledgements import acknowledge, acknowledgement_of, occurrence
from engine.base.errors import NewerFormatError
from engine.pipeline.active_alert import Alert
from engine.pipeline.directory import Directory

LAG = Alert("lag", value=75.2, since="2026-01-31T15:30:17.000000Z", message="m")


def test_an_acknowledgement_is_kept_with_actor_time_and_note(tmp_path: Path) -> None:
    """For every later process. Who comes second changes nothing; without a name it is the process's user."""
    where = Directory(tmp_path)
    assert acknowledgement_of(where, LAG) is None
    made = acknowledge(where, LAG, actor=" ada ", note="index rebuild ")
    assert (made.actor, made.note, made.kind, made.value) == ("ada", "index rebuild", "lag", 75.2)
    assert made.at.endswith("Z")
    assert acknowledge(where, LAG, actor="bob") == made
    assert acknowledgement_of(where, Alert(**json.loads(json.dumps(LAG.to_json())))) == made
    assert acknowledge(where, replace(LAG, kind="runway")).actor


def test_a_repeated_alert_stays_acknowledged_and_one_that_comes_back_does_not(tmp_path: Path) -> None:
    """Nor does the same alert of another table, nor a run that fails with another exit code."""
    where = Directory(tmp_path)
    acknowledge(where, LAG)
    assert acknowledgement_of(where, replace(LAG, repeat=3, announced="later", message="other")) is not None
    changes: list[dict[str, Any]] = [
        {"since": "2026-01-31T16:00:00.000000Z"},
        {"table": "d.t"},
        {"value": 4},
        {"kind": "lag_bytes"},
    ]
    for change in changes:
        assert acknowledgement_of(where, replace(LAG, **change)) is None
    assert occurrence(replace(LAG, value=4)) == occurrence(replace(LAG, value=4.0))


def test_old_and_invalid_files_are_no_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest are kept; one of a newer version is refused by name."""
    monkeypatch.setattr(acknowledgements, "_KEPT", 2)
    where = Directory(tmp_path)
    for value in range(4):
        acknowledge(where, replace(LAG, value=value))
    folder = tmp_path / "acknowledged"
    assert len(list(folder.iterdir())) == 2
    path = folder / f"{occurrence(LAG)}.json"
    for text in ("", "[]", '{"actor": 1}', "{"):
        path.write_text(text)
        assert acknowledgement_of(where, LAG) is None
    path.write_text('{"format": 9}')
    with pytest.raises(NewerFormatError, match="acknowledgement"):
        acknowledgement_of(where, LAG)
