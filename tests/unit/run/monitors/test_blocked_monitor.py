"""Which blocked reads are written to the journal, and since when they wait."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from engine.run.monitors.blocked_monitor import Blocked
from engine.source.blocked_reads import BlockedRead, BlockingSession

START = datetime(2026, 1, 31, tzinfo=UTC)
HOLDER = BlockingSession(42, "app", "10.0.0.7", "holds", "EXCLUSIVE", 3, idle=True, statement="LOCK TABLES t WRITE")
READ = BlockedRead("d.t", "table metadata lock", 3, 1, (HOLDER,))


def written(known: Blocked, at_s: float, *found: BlockedRead) -> list[tuple[str | None, str | None]]:
    """The events of a look: table, and since when."""
    news = known.news(known.events(found, START + timedelta(seconds=at_s)))
    return [(one.table, one.since and one.since[11:19]) for one in news]


def test_a_wait_is_written_once_again_when_it_is_late_or_others_block_it_and_at_its_end() -> None:
    """Not when only the times differ. A wait of a second is none."""
    known = Blocked(late_s=30)
    assert written(known, 1, replace(READ, seconds=1)) == []
    assert written(known, 3, READ) == [("d.t", "00:00:00")]
    later = replace(READ, seconds=5, sessions=(replace(HOLDER, seconds=5),))
    assert written(known, 5, later) == []
    assert written(known, 30, replace(READ, seconds=30)) == [("d.t", "00:00:00")]
    assert written(known, 32, replace(READ, seconds=32)) == []
    assert written(known, 34, replace(READ, seconds=34, sessions=())) == [("d.t", "00:00:00")]
    assert written(known, 36) == [("d.t", None)]
    assert written(known, 38) == []


def test_a_reader_that_tries_again_has_waited_since_the_first_try() -> None:
    """Its own statement is younger than the block of its table."""
    known = Blocked(late_s=30)
    assert written(known, 20, replace(READ, seconds=20)) == [("d.t", "00:00:00")]
    (event,) = known.events([replace(READ, seconds=3)], START + timedelta(seconds=40))
    assert (event.seconds, (event.since or "")[11:19]) == (40.0, "00:00:00")


def test_an_alert_of_an_earlier_run_ends_with_the_first_look_that_finds_no_wait() -> None:
    """The lock may have been released while no runner was alive."""
    assert written(Blocked(30, ["d.t", "d.u"]), 5, READ) == [("d.t", "00:00:02"), ("d.u", None)]
