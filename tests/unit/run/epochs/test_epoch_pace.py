"""How long the coordinator waits between epochs."""

import pytest

from engine.run.epochs.epoch_pace import EpochPace
from engine.spec.settings import Spec


def test_steady_load_makes_epochs_rarer_and_a_pause_frequent_again() -> None:
    """The interval grows by a tenth an epoch, to ten times what one costs."""
    pace, seen = EpochPace(0.5, 5.0), list[float]()
    for _ in range(30):
        pace.done(0.2, changes=100)
        seen.append(pace.interval_s)
    assert seen == sorted(seen)
    assert seen[0] == pytest.approx(0.55)
    assert seen[-1] == pytest.approx(2.0)
    pace.done(0.2, changes=0)
    assert pace.interval_s == 0.5


def test_the_interval_has_bounds() -> None:
    """Cheap epochs stay frequent, and expensive ones do not make the mirror older than its merges do."""
    pace = EpochPace(0.5, 5.0)
    for _ in range(100):
        pace.done(0.01, changes=1)
    assert pace.interval_s == 0.5
    for _ in range(100):
        pace.done(60.0, changes=1)
    assert pace.interval_s == 5.0
    assert EpochPace(2.0, 1.0).interval_s == 2.0


@pytest.mark.parametrize(("setting", "longest_s"), [({}, 4.0), ({"max_epoch_interval_s": 0.3}, 0.3)])
def test_the_change_log_is_fresh_whatever_the_interval_of_merges(setting: dict[str, float], longest_s: float) -> None:
    """By default, an epoch is as rare as a merge at most."""
    source = {"host": "db", "user": "u", "tables": ["shop.*"]}
    sink = {"path": "lake", "merge_interval_s": 4.0}
    spec = Spec.model_validate({"name": "shop", "source": source, "sink": sink, "poll_interval_s": 0.2} | setting)
    pace = EpochPace.of(spec)
    for _ in range(100):
        pace.done(60.0, changes=1)
    assert pace.interval_s == longest_s
