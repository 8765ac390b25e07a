"""The light *Data*: what it costs, and when it changes."""

import os
from datetime import timedelta
from pathlib import Path

import pytest

from app.parts import data_light
from app.view.verification import VerifiedTable
from engine.directory import Directory
from engine.verifications import Summary, save
from tests.unit.app.support import NOW

SUMMARY: Summary = {
    "verdict": "verified",
    "why": "",
    "at": "2026-01-31T15:00:00Z",
    "last": "2026-01-31T15:00:00Z",
    "position": None,
    "version": None,
    "level": "counts",
    "rows": 1,
    "differences": 0,
    "by_kind": {},
    "parts": 1,
    "compared": 1,
    "generation": 0,
    "seconds": 0.1,
}


def test_tables_are_not_read_every_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of them would cost a tenth of a second each time. The end of a verification shows at once."""
    where, asked = Directory(tmp_path), []

    def tables_of(where: Directory, now: object) -> list[VerifiedTable]:
        asked.append(now)
        return [VerifiedTable("d.t", "stale", "it was not verified yet", None)]

    monkeypatch.setattr(data_light, "tables_of", tables_of)
    for seconds in (0, 1, 4):
        light = data_light.layer_of(where, NOW + timedelta(seconds=seconds), current=True)
        assert light.headline == "Not verified yet"
    assert len(asked) == 1
    save(where, {"d.t": SUMMARY}, [])
    os.utime(where.verifications / "summary.json", (1, 1))
    data_light.layer_of(where, NOW + timedelta(seconds=4), current=True)
    assert len(asked) == 2
    data_light.layer_of(where, NOW + timedelta(seconds=10), current=True)
    assert len(asked) == 3
