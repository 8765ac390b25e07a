"""The reader timeline: idle time and stragglers."""

from hypothesis import given
from hypothesis import strategies as st

from app.live.view.reader_timeline import busy_s, figure, quantile, reader_totals, spreads, stragglers
from tests.unit.app.support import NOW, ago, read


def test_idle_time_is_the_rest() -> None:
    """A reader that had a chunk for six of ten seconds is 60 % busy."""
    one, two = reader_totals([read(10, 6), read(4, 2, chunk=1), read(10, 0, 500, reader="r2")], ago(10), NOW)
    assert (one.reader, one.busy, one.chunks, one.rows) == ("r1", 0.6, 2, 2000)
    assert two.busy == 1.0


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100)), max_size=12))
def test_overlapping_reads_of_one_reader_count_once(spans: list[tuple[int, int]]) -> None:
    """The busy time equals a count per second."""
    reads = [read(max(a, b), min(a, b)) for a, b in spans]
    naive = sum(any(min(a, b) <= n < max(a, b) for a, b in spans) for n in range(60))
    assert busy_s(reads, ago(60), NOW) == naive


def test_a_straggler_takes_over_three_medians() -> None:
    """A slow chunk is a separate trace."""
    reads = [read(n + 1, n, chunk=n) for n in range(9)] + [read(20, 10, chunk=9)]
    assert stragglers(reads) == {("d.t", 9)}
    assert stragglers(reads[:3]) == set()
    tiny = [read(n + 0.01, n, chunk=n) for n in range(9)] + [read(20, 19.5, chunk=9)]
    assert stragglers(tiny) == set()
    names = [trace["name"] for trace in figure(reads, ago(60), NOW)["data"]]
    assert names == ["chunk", "straggler: over 3 × median"]
    retried = figure([read(2, 1, attempt=1)], ago(60), NOW)["data"]
    assert [trace["name"] for trace in retried] == ["second or later attempt"]


def test_spreads_are_quartiles() -> None:
    """Minimum, quartiles and maximum; `—` if nothing was read."""
    assert [quantile([1.0, 2.0, 3.0, 4.0, 5.0], share) for share in (0, 0.25, 0.5, 1)] == [1, 2, 3, 5]
    found = {one.name: one.values for one in spreads([read(n + 1, 0, chunk=n) for n in range(5)])}
    assert found["Seconds a chunk"] == ("1.0 s", "2.0 s", "3.0 s", "4.0 s", "5.0 s")
    assert {one.values for one in spreads([])} == {("—",) * 5}
