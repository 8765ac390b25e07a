"""The runway: how long the server keeps the committed position's file."""

from engine.run.monitors.retention import Growth, following, retention_left_s
from engine.source.positions import Position, Retention

FILES = {"b.000008": 1000, "b.000009": 1000, "b.000010": 400}
DAY = Retention(86400.0, None, 1 << 30)


def test_a_closed_file_is_kept_from_when_it_was_closed() -> None:
    """An overdue file does not prove lag: quiet days count too."""
    old = Position("b.000009", 500)
    assert following(old, FILES) == "b.000010"
    assert retention_left_s(old, FILES, 10_000.0, DAY, 4_000.0, None) == 80_400.0
    assert retention_left_s(old, FILES, 200_000.0, DAY, 4_000.0, None) == 0.0


def test_the_file_that_is_written_is_kept_a_whole_term_more() -> None:
    """It may be closed at any moment, but not earlier."""
    end = Position("b.000010", 400)
    assert following(end, FILES) is None
    assert retention_left_s(end, FILES, 10_000.0, DAY, None, None) == 86400.0


def test_a_limit_on_all_files_is_reached_by_growth() -> None:
    """MariaDB's max_binlog_total_size: the file is purged when it and all later files exceed the limit."""
    limited = Retention(None, 5000, 1000)
    assert retention_left_s(Position("b.000009", 0), FILES, 0.0, limited, 0.0, 10.0) == 360.0
    assert retention_left_s(Position("b.000009", 0), FILES, 0.0, limited, 0.0, None) is None
    assert retention_left_s(Position("b.000009", 0), FILES, 0.0, Retention(100.0, 5000, 1000), 0.0, 10.0) == 100.0


def test_no_purge_and_no_file() -> None:
    """A server that never purges has no runway; a purged file has a runway of zero."""
    assert retention_left_s(Position("b.000009", 0), FILES, 0.0, Retention(None, None, 1000), 0.0, 10.0) is None
    assert retention_left_s(Position("b.000007", 0), FILES, 0.0, Retention(None, None, 1000), 0.0, 10.0) == 0.0


def test_growth_is_known_after_a_while() -> None:
    """Across files; measured again after a failover; forgotten after ten minutes."""
    growth = Growth()
    assert growth.observe(0.0, Position("b.000008", 500), {"b.000008": 500}) is None
    assert growth.observe(5.0, Position("b.000008", 600), {"b.000008": 600}) is None
    assert growth.observe(20.0, Position("b.000010", 400), FILES) == (1000 - 500 + 1000 + 400) / 20
    assert growth.observe(21.0, Position("b.000002", 4), {"b.000002": 4}) is None
    assert growth.observe(41.0, Position("b.000002", 204), {"b.000002": 204}) == 10.0
    assert growth.observe(700.0, Position("b.000002", 204), {"b.000002": 204}) is None
    assert growth.observe(720.0, Position("b.000002", 204), {"b.000002": 204}) == 0.0
