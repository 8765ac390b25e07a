"""What limits a copy now."""

import pytest

from app.live.view.bottleneck import bottleneck, readers_of
from engine.history.cost_queries import ReaderSeconds


def spent(read: float, backfill: float = 0, write: float = 0, *, chunks: int = 9, size: float = 0) -> ReaderSeconds:
    """Seconds of the last minute."""
    return ReaderSeconds(chunks, read, 0.5, backfill, write, size)


def test_the_longest_step_of_busy_readers_is_the_limit() -> None:
    """With what it includes, since decoding cannot be told from the source's time."""
    found = bottleneck(spent(150, 20, 50), 4, {}, 1000, None)
    assert found is not None
    assert found.name == "reading from the source"
    assert found.why == (
        "68% of the readers' time, decoding included; 4 readers busy 92% of the last 60 s; more readers may help"
    )
    for busy, name in (
        (spent(20, 80, 40), "the backfill from the binlog"),
        (spent(20, 10, 90), "writing to the destination"),
    ):
        found = bottleneck(busy, 4, {}, 1000, None)
        assert found is not None
        assert found.name == name
        assert "more readers" not in found.why


def test_idle_readers_are_not_the_fault_of_a_step() -> None:
    """They wait for chunks, Spark or a commit."""
    found = bottleneck(spent(50, 5, 5), 4, {}, 1000, None)
    assert found is not None
    assert (found.name, found.why[:35]) == ("idle readers", "4 readers busy 25% of the last 60 s")


@pytest.mark.parametrize(
    ("settings", "rows_s", "size", "why"),
    [
        ({"max_rows_per_s": 3000}, 2900.0, 0, "2,900 of at most 3,000 rows/s"),
        ({"max_bytes_per_s": 1_000_000}, 10.0, 54e6, "900 KB/s of at most 1 MB/s of files"),
    ],
)
def test_a_rate_that_is_nearly_reached_is_the_limit(
    settings: dict[str, int], rows_s: float, size: float, why: str
) -> None:
    """Its pauses are in the seconds of reading, which say nothing then."""
    found = bottleneck(spent(230, size=size), 4, settings, rows_s, f"at most {settings}")
    assert found is not None
    assert (found.name, found.why) == ("the throttle", why)
    far = bottleneck(spent(230), 4, settings, 100.0, None)
    assert far is not None
    assert far.name == "reading from the source"


def test_the_runners_own_reason_comes_first() -> None:
    """It knows why nothing is read."""
    found = bottleneck(spent(0, chunks=0), 4, {}, None, "Threads_running is 80 (limit 50)")
    assert found is not None
    assert (found.name, found.why) == ("a wait", "Threads_running is 80 (limit 50)")


def test_nothing_is_said_before_a_chunk_has_ended() -> None:
    """It would be a guess."""
    assert bottleneck(spent(0, chunks=0), 4, {}, None, None) is None
    assert bottleneck(spent(9), 0, {}, None, None) is None


def test_as_many_chunks_are_read_at_once_as_the_scheduler_allows() -> None:
    """A rate keeps a slot free for the binlog."""
    assert readers_of(4, 0, {}) == 4
    assert readers_of(4, 2, {}) == 2
    assert readers_of(4, 2, {"readers": 3}) == 3
    assert readers_of(4, 9, {"max_rows_per_s": 10}) == 3
    assert readers_of(1, 0, {"max_rows_per_s": 10}) == 1
