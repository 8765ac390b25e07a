"""How far the copy is, how fast it goes, and an honest estimate of when it is done."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from app.view import words
from engine.history.chunk_queries import Read
from engine.history.series import EpochTotals, Lag
from engine.history.table_queries import Progress
from engine.plan.speed import owed_s
from engine.settings import Throttle

RECENT_S = 30.0
"""Rates are taken over this much of the immediate past."""
_ALMOST = 0.999
_CHUNK_ROWS = 2000
"""So many rows could be read in the time that a chunk's statements take (`run.snapshot.table_copy`)."""
_FREE = Throttle()


@dataclass(frozen=True)
class Copy:
    """The copy of all tables together."""

    rows: int
    expected_rows: int | None
    chunks_done: int
    chunks: int
    """Those expected in the end: an estimate until all tables are `cut`."""
    cut: bool
    share: float | None
    changes: int
    rows_s: float | None
    eta: str | None
    """A range such as `50–65 s`; None while there is too little to go by."""

    @property
    def done(self) -> bool:
        """Whether there was something to copy and nothing of it is left."""
        return self.cut and 0 < self.chunks == self.chunks_done


@dataclass(frozen=True)
class Work:
    """A part of the copy. rows: those left are estimated."""

    chunks: int
    rows: float

    def worth(self, throttle: Throttle) -> float:
        """In rows. What a chunk costs besides is small next to what a rate makes of its rows."""
        rated = throttle.max_rows_per_s or throttle.max_bytes_per_s
        return self.rows if rated else self.rows + _CHUNK_ROWS * self.chunks


def copy_of(
    tables: Sequence[Progress],
    reads: Sequence[Read],
    totals: EpochTotals,
    now: datetime,
    *,
    live: bool,
    throttle: Throttle = _FREE,
) -> Copy:
    """The copy so far; rates and the estimate only while the runner is live and copying.

    throttle: as it is set now.
    No estimate when a table is cut into more chunks than were expected: no one knows then how many follow.
    """
    chunks, done = sum(t.expected_chunks for t in tables), sum(t.done for t in tables)
    planned = [t for t in tables if t.planned]
    known = [t.rows if t.copied else t.approx_rows for t in planned]
    expected = sum(max(n or 0, t.rows) for n, t in zip(known, planned, strict=True)) if known else None
    going = copying(tables, live=live)
    foreseen = all(t.complete or t.chunks < (t.estimated_chunks or 0) for t in tables)
    return Copy(
        rows=sum(t.rows for t in tables),
        expected_rows=None if None in known else expected,
        chunks_done=done,
        chunks=chunks,
        cut=all(t.complete for t in tables),
        share=share(tables),
        changes=totals.changes,
        rows_s=rows_per_s(reads, now) if going else None,
        eta=estimate(Work(done, sum(t.rows for t in tables)), left_of(tables, reads), reads, now, throttle)
        if going and foreseen
        else None,
    )


def copying(tables: Sequence[Progress], *, live: bool) -> bool:
    """Whether something is being copied, which then has a pace. live: a runner runs, and is not paused."""
    return live and not all(one.copied for one in tables)


def share(tables: Sequence[Progress]) -> float | None:
    """Read share of the chunks expected, 0 to 1: row counts of a source are estimates, chunks that are cut are not.

    Below 1 as long as a table is being cut; None while no one knows how many chunks there will be.
    """
    chunks, done = sum(t.expected_chunks for t in tables), sum(t.done for t in tables)
    growing = [t for t in tables if not t.complete]
    if not chunks or any(t.estimated_chunks is None for t in growing):
        return None
    return min(done / chunks, _ALMOST) if growing else done / chunks


def rows_per_s(
    reads: Sequence[Read], now: datetime, window_s: float = RECENT_S, table: str | None = None
) -> float | None:
    """Rows a second over the last `window_s`, each chunk's rows spread over the time it took; None when nothing was read."""
    chosen = [read for read in reads if table is None or read.table == table]
    if not chosen:
        return None
    since = max(now - timedelta(seconds=window_s), min(read.started for read in chosen))
    elapsed = (now - since).total_seconds()
    return sum(overlap_rows(read, since, now) for read in chosen) / elapsed if elapsed > 0 else None


def overlap_rows(read: Read, since: datetime, until: datetime) -> float:
    """The part of a chunk's rows that falls between two instants."""
    took = (read.ended - read.started).total_seconds()
    if took <= 0:
        return float(read.rows) if since <= read.ended < until else 0.0
    inside = (min(read.ended, until) - max(read.started, since)).total_seconds()
    return read.rows * max(inside, 0.0) / took


def left_of(tables: Sequence[Progress], reads: Sequence[Read]) -> Work:
    """What is left to read: a table's chunks are as large as those read of it, and before, as the source says.

    One of which the source says nothing has chunks as all others have.
    """
    usual = sum(read.rows for read in reads) / max(len(reads), 1)
    work = []
    for table in tables:
        chunks = table.expected_chunks - table.done
        if table.done:
            work.append(Work(chunks, chunks * table.rows / table.done))
        else:
            work.append(Work(chunks, chunks * usual if table.approx_rows is None else table.approx_rows))
    return Work(sum(one.chunks for one in work), sum(one.rows for one in work))


def estimate(done: Work, left: Work, reads: Sequence[Read], now: datetime, throttle: Throttle = _FREE) -> str | None:
    """Remaining time as a range: by the pace of all reads and by the pace of the newest third of them.

    By rows, as small tables are chunks too; and no less than the throttle's rates allow, of which the first reads know
    nothing. None before 1 % or three chunks are done: an estimate out of nothing is worse than none.
    """
    worth = left.worth(throttle)
    if done.chunks < 3 or done.worth(throttle) * 99 < worth or not left.chunks or len(reads) < 3:
        return None
    ordered = sorted(reads, key=lambda read: read.ended)
    paces = [_pace_s(ordered, now, throttle), _pace_s(ordered[-max(len(ordered) // 3, 3) :], now, throttle)]
    each = sum(read.bytes for read in reads) / max(sum(read.rows for read in reads), 1)
    least = owed_s(throttle, left.rows, left.rows * each)
    low, high = sorted(max(worth * pace, least) for pace in paces)
    return between(low * 0.95, high * 1.05)


def _pace_s(reads: Sequence[Read], now: datetime, throttle: Throttle) -> float:
    """Seconds that what is worth a row takes, over all readers together."""
    began = min(read.started for read in reads)
    worth = Work(len(reads), sum(read.rows for read in reads)).worth(throttle)
    return max((max(now, reads[-1].ended) - began).total_seconds(), 0.001) / max(worth, 1)


def between(low_s: float, high_s: float) -> str:
    """`50–65 s`, `4–6 min`, `1.5–2 h`: both ends in the unit of the upper one."""
    unit_s, unit = next(((s, name) for s, name in ((3600.0, "h"), (60.0, "min")) if high_s >= s * 2), (1.0, "s"))
    low, high = max(low_s / unit_s, 1.0 / unit_s), max(high_s / unit_s, 1.0 / unit_s)
    digits = 1 if unit != "s" and high < 10 else 0
    low_text, high_text = (f"{end:.{digits}f}".removesuffix(".0") for end in (low, high))
    return f"{high_text} {unit}" if low_text == high_text else f"{low_text}–{high_text} {unit}"


def status_line(copy: Copy, lag: Lag | None, state: str, phase: str | None) -> str:
    """The one line to paste into a chat at night, in the manner of gh-ost."""
    doing = (
        {"snapshot": "snapshotting", "streaming": "streaming"}.get(phase or "", state) if state == "running" else state
    )
    expected = f"/{words.count(copy.expected_rows)}" if copy.expected_rows is not None else ""
    lag_text = f"{_tight(words.duration(lag.lag_s))} {_tight(words.size(lag.lag_bytes))}" if lag else words.NOTHING
    chunks = f"{copy.chunks_done}/{'' if copy.cut else '~'}{copy.chunks} chunks"
    eta = copy.eta or ("copy done" if copy.done else "not known yet" if state == "running" else words.NOTHING)
    parts = (
        f"Copy: {words.count(copy.rows)}{expected} rows, {chunks} {words.percent(copy.share)}",
        f"Changes: {words.count(copy.changes)}",
        f"Lag: {lag_text}",
        (lag.position if lag else None) or "no position yet",
        f"State: {doing}",
        f"ETA: {_tight(eta) if copy.eta else eta}",
    )
    return "; ".join(parts)


def _tight(text: str) -> str:
    return text.replace(" ", "")
