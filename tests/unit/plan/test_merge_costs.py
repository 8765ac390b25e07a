"""The estimated costs of merging: numbers reasoned by hand, the real schedule, and the measured benchmark."""

import ast
import math
from pathlib import Path

import pytest

from engine.destination import maintenance_schedule, merge_schedule
from engine.destination.delta.maintenance import optimize
from engine.destination.delta.merge import mirror_files
from engine.destination.merge_schedule import MergeSchedule
from engine.plan import merge_costs
from engine.plan.merge_costs import DAY_S, MergeCost, merge_cost, seconds
from engine.source.change_rates import ChangeRate
from engine.spec import merge_numbers
from engine.spec.sink_settings import Merging, Sink

MB, GB = 10**6, 10**9
SINK = Sink(path=Path("lake"))


def updates(per_s: float, image_bytes: float = 100.0) -> ChangeRate:
    """Updates alone: two images each."""
    return ChangeRate(0.0, per_s, 0.0, 2 * per_s * image_bytes)


def both(rows: int, size: int, rate: ChangeRate, sink: Sink = SINK) -> tuple[MergeCost, MergeCost]:
    """The costs of copy on write and of merge on read."""
    return merge_cost("copy_on_write", rows, size, rate, sink), merge_cost("merge_on_read", rows, size, rate, sink)


NUMBERS = vars(merge_numbers).keys() - {name for name in vars(merge_numbers) if name.startswith("_")}
USERS = (merge_costs, merge_schedule, maintenance_schedule, optimize, mirror_files)


def test_the_numbers_of_merges_have_one_owner() -> None:
    """Whoever changes one of them changes the estimates, too: none is assigned anywhere else, and each has two users.

    The sizes of a rewrite's rows and of small files that copy on write rewrites together are others.
    """
    others = {(optimize, "MOST_ROWS"), (mirror_files, "SMALL_BYTES")}
    users = {name: [user for user in USERS if name in vars(user) and (user, name) not in others] for name in NUMBERS}
    assert all(merge_costs in users[name] and len(users[name]) > 1 for name in NUMBERS)
    for user in USERS:
        assigned = {
            target.id
            for node in ast.parse(Path(str(user.__file__)).read_text(encoding="utf-8")).body
            if isinstance(node, ast.Assign)
            for target in ast.walk(node.targets[0])
            if isinstance(target, ast.Name)
        }
        assert not {name for name in NUMBERS & assigned if (user, name) not in others}


def test_a_table_of_one_file_is_written_again_with_each_merge() -> None:
    """Ten updates a second are 2 kB/s of changes. 10 MB may be written per 100 kB of them: every 50 s."""
    on_write, _ = both(100_000, 10 * MB, updates(10))
    # A merge writes the file and the p × 1 kB of new images: p = (10 MB + 1 kB × p) / 200 kB/s.
    assert on_write.period_s == pytest.approx(10_000 / 199, rel=0.001)
    assert on_write.bytes_per_day == pytest.approx(DAY_S * 200_000, rel=0.001)
    assert on_write.mirror_age_s == pytest.approx(on_write.period_s + 0.2, abs=0.01)


def test_random_updates_of_a_large_table_touch_every_file() -> None:
    """10 GB are 597 files; 1 000 updates a second touch all of them within seconds, so every merge writes 10 GB.

    That takes 100 s. A quarter of the time would be 400 s; the longest delay allows exactly that.
    """
    on_write, on_read = both(100 * MB, 10 * GB, updates(1000))
    assert on_write.period_s == pytest.approx(4 * 100, rel=0.01)
    assert on_write.mirror_age_s == pytest.approx(5 * 100, rel=0.01)
    assert on_write.bytes_per_day == pytest.approx(DAY_S * 10 * GB / 400, rel=0.02)
    assert on_read.period_s == SINK.merge_interval_s
    # Per second: 100 kB of rows; 100 M bits of vectors per 10 s, as all 150 files are touched; the rows twice more,
    # from 1 MB to 8 MB to 16 MiB; five rows per deleted one.
    assert on_read.bytes_per_day == pytest.approx(DAY_S * (100e3 + 1.25 * MB + 200e3 + 500e3), rel=0.02)


def test_few_updates_of_a_large_table_wait_as_long_as_they_may() -> None:
    """One row a minute: five rows in five minutes, in five files of 16 MiB."""
    on_write, on_read = both(10 * MB, GB, updates(1 / 60))
    files = GB / (16 << 20)
    touched = files * (1 - math.exp(-on_write.period_s / 60 / files))
    assert on_write.period_s == pytest.approx(300 + seconds(touched * (16 << 20)), rel=0.001)
    assert on_write.bytes_per_day == pytest.approx(DAY_S / on_write.period_s * touched * (16 << 20), rel=0.01)
    assert on_read.mirror_age_s < 11
    assert on_read.bytes_per_day < on_write.bytes_per_day / 100


def test_inserts_touch_no_file() -> None:
    """1 000 rows of 100 bytes a second: each is written once, and again for each size class of small files."""
    on_write, on_read = both(100 * MB, 10 * GB, ChangeRate(1000.0, 0.0, 0.0, 100_000.0))
    assert on_write.period_s == on_read.period_s == SINK.merge_interval_s
    # Files of 1 MB grow to 4 MiB with copy on write in one step, and to 16 MiB with merge on read in two.
    assert on_write.bytes_per_day == pytest.approx(DAY_S * 200e3, rel=0.001)
    assert on_read.bytes_per_day == pytest.approx(DAY_S * 300e3, rel=0.001)


@pytest.mark.parametrize("way", ["copy_on_write", "merge_on_read"])
def test_without_changes_nothing_is_written_and_the_mirror_lacks_nothing(way: Merging) -> None:
    """Whatever the size."""
    cost = merge_cost(way, 10**9, 10**12, ChangeRate(), SINK)
    assert (cost.bytes_per_day, cost.mirror_age_s) == (0, 0)


def test_a_limit_of_the_amplification_may_be_off() -> None:
    """Then only the share of the time puts merges off; an interval of 0 is no division by zero."""
    free = Sink(path=Path("lake"), merge_interval_s=0, max_write_amplification=0)
    on_write, _ = both(100_000, 10 * MB, updates(10), free)
    assert on_write.period_s == pytest.approx(4 * 0.2, rel=0.01)


@pytest.mark.parametrize(
    ("rows", "size", "per_s"),
    [(100_000, 10 * MB, 10), (10**7, GB, 20), (10**8, 10 * GB, 1000), (10**7, GB, 0.1), (1000, 100_000, 500)],
)
def test_the_period_is_that_of_the_schedule(rows: int, size: int, per_s: float) -> None:
    """The schedule itself, asked every second with merges of these sizes, settles at the estimated period."""
    rate, schedule, now_s, starts = updates(per_s), MergeSchedule(), 0.0, list[float]()
    table = merge_costs._Changing("copy_on_write", rows, size, rate)
    ended_s, merged_s = 0.0, 0.0
    while len(starts) < 40:
        now_s += 1
        due = now_s - (starts[-1] if starts else 0.0) >= SINK.merge_interval_s
        if now_s < ended_s or not due or not schedule.is_due(SINK, int(rate.bytes_per_s * (now_s - merged_s)), now_s):
            continue
        written = table.merge_bytes(now_s - merged_s)
        ended_s = now_s + seconds(written)
        schedule.count_merge(ended_s, seconds(written), int(written))
        starts.append(now_s)
        merged_s = now_s
    period_s = (starts[-1] - starts[-11]) / 10
    assert period_s == pytest.approx(merge_cost("copy_on_write", rows, size, rate, SINK).period_s, rel=0.03, abs=1.5)


@pytest.mark.parametrize(("rows", "size", "measured"), [(10**6, 41 * MB, 5.6), (10**7, 413 * MB, 5.2)])
def test_the_estimate_is_within_a_factor_of_two_of_the_benchmark(rows: int, size: int, measured: float) -> None:
    """Bytes written per byte of changes.

    Their size: copy on write rewrote 41 MB every two seconds, 352 times the changes.
    """
    changed_per_s = 41 * MB / 2 / 352
    rate = ChangeRate(200.0, 1000.0, 100.0, changed_per_s)
    cost = merge_cost("merge_on_read", rows, size, rate, Sink(path=Path("lake"), merge_interval_s=4))
    assert measured / 2 < cost.bytes_per_day / DAY_S / changed_per_s < measured * 2
