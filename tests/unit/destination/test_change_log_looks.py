"""How often change logs are looked at: what that costs."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from engine.destination.change_log_looks import INTERVAL_S, ChangeLogLooks
from engine.destination.published_tables import PublishedTables


@pytest.mark.parametrize(("root", "most"), [(Path("/lake"), 1000 * 3600 / INTERVAL_S), ("s3://b/lake", 60)])
def test_a_look_is_rare_enough(monkeypatch: pytest.MonkeyPatch, root: Path | str, most: float) -> None:
    """An idle pipeline of a thousand tables makes fewer than ten requests a minute of a bucket."""
    now_s, looks = [0.0], list[str]()

    def run_step(name: str, *_: Any) -> None:
        looks.append(name)
        now_s[0] += 0.002

    tables = {f"d.t{n}": SimpleNamespace(resnapshot=None) for n in range(1000)}
    published = SimpleNamespace(destination=SimpleNamespace(root=root), targets=tables, run_step=run_step, inspect=list)
    monkeypatch.setattr("engine.base.clock.monotonic_s", lambda: now_s[0])
    looker = ChangeLogLooks(cast(PublishedTables, published))
    while now_s[0] < INTERVAL_S + 3600:
        looker.look()
        now_s[0] += 0.05
    assert most / 2 <= len(looks) <= most + 1
    assert len(set(looks[:1000])) == min(len(looks), 1000), "one after the other"
