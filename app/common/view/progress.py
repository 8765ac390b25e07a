"""Progress of the copy, its speed, and an estimate of the remaining time."""

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from app.common.view import words, zone
from engine.base.wording import listing
from engine.history.chunk_queries import Read
from engine.history.series import EpochTotals, Lag, RowRate
from engine.history.table_queries import TableProgress
from engine.pipeline.runner_record import RunnerRecord, TableReading
from engine.plan.speed import owed_s
from engine.spec.throttle_settings import Throttle

RECENT_S = 30.0
"""The window for rates."""
_ALMOST = 0.999
_SOON_S = 600.0
_CHUNK_ROWS = 2000
"""The fixed cost of a chunk's statements, in rows that could be read in that time (`run.snapshot.table_copy`)."""
_FREE = Throttle()
_PLANNING = "tables are being planned"
_MOST_NAMES = 3
_LINE_STYLE = """<style>
.status-line { display: block; padding: 0.75rem 1rem; border-radius: 0.5rem; font-size: 0.875rem; white-space: pre-wrap;
 color: inherit; background: color-mix(in srgb, currentColor 5%, transparent); overflow-wrap: anywhere; }
</style>"""


@dataclass(frozen=True)
class Remaining:
    """The range of the remaining time."""

    low_s: float
    high_s: float

    @property
    def text(self) -> str:
        """`50–65 s`."""
        return between(self.low_s, self.high_s)


@dataclass(frozen=True)
class Copy:
    """The copy of all tables together."""

    rows: int
    """Rows read."""
    expected_rows: int | None
    """Estimated by the source; None if that is unknown for a table."""
    chunks_done: int
    """Chunks read."""
    chunks: int
    """The expected number of chunks: an estimate until `split`."""
    split: bool
    """Whether all chunks of all tables are planned."""
    share: float | None
    """The share of the expected chunks that are read, 0 to 1; None if it is unknown."""
    changes: int
    """Changes committed."""
    rows_s: float | None
    """Rows read per second; None while nothing is copied."""
    remaining: Remaining | None
    """None while there is too little data."""
    halted: bool = False
    """Whether only stopped tables have chunks left."""
    planning: str = ""
    """Says, as a clause, that tables are being planned and have no chunks yet; empty if none are."""

    @property
    def eta(self) -> str | None:
        """A range such as `50–65 s`; None while there is too little data."""
        return None if self.remaining is None else self.remaining.text

    @property
    def done(self) -> bool:
        """Whether there was something to copy and nothing is left."""
        return self.split and not self.planning and 0 < self.chunks == self.chunks_done


@dataclass(frozen=True)
class CopyPart:
    """A part of the copy."""

    chunks: int
    rows: float
    """An estimate for rows that are not read yet."""

    def worth(self, throttle: Throttle) -> float:
        """The work in rows. With a rate limit, the fixed cost of a chunk does not matter."""
        rated = throttle.max_rows_per_s or throttle.max_bytes_per_s
        return self.rows if rated else self.rows + _CHUNK_ROWS * self.chunks


def copy_of(
    tables: Sequence[TableProgress],
    reads: Sequence[Read],
    totals: EpochTotals,
    now: datetime,
    *,
    live: bool,
    throttle: Throttle = _FREE,
    current: Sequence[Read] = (),
    planning: str = "",
) -> Copy:
    """The copy so far. Rates and the estimate exist only while a live runner copies.

    There is no estimate once a table has more chunks than expected, since nobody knows how many follow.

    throttle: the limits now. current: what is read so far of chunks that are being read (`current_reads`).

    planning: what the runner says of tables that it plans (`planning_words`). Until then, no event names them.
    """
    if any(t.being_planned for t in tables):
        planning = planning or _PLANNING
    chunks, done = sum(t.expected_chunks for t in tables), sum(t.done for t in tables)
    planned_tables = [t for t in tables if t.planned]
    row_counts = [t.rows if t.copied else t.approx_rows for t in planned_tables]
    expected = sum(max(n or 0, t.rows) for n, t in zip(row_counts, planned_tables, strict=True)) if row_counts else None
    going = copying(tables, live=live)
    rows = sum(t.rows for t in tables) + sum(read.rows for read in current)
    open_tables = [one for one in tables if one.being_copied]
    foreseen = not planning and all(t.complete or t.chunks < (t.estimated_chunks or 0) for t in open_tables)
    return Copy(
        rows=rows,
        expected_rows=None if None in row_counts or expected is None else max(expected, rows),
        chunks_done=done,
        chunks=chunks,
        split=not planning and all(t.complete for t in tables),
        share=None if planning else share(tables),
        changes=totals.changes,
        rows_s=rows_per_s([*reads, *current], now) if going else None,
        remaining=estimate(
            CopyPart(done, sum(t.rows for t in tables)), left_of(open_tables, reads), reads, now, throttle
        )
        if going and foreseen
        else None,
        halted=not planning and not open_tables and not all(t.copied for t in tables),
        planning=planning,
    )


def copying(tables: Sequence[TableProgress], *, live: bool) -> bool:
    """Whether tables are being copied. live: a runner is alive and not paused."""
    return live and any(one.being_copied for one in tables)


def others_work(tables: Sequence[TableProgress]) -> bool:
    """Whether a table is neither stopped nor removed, so that it continues when another one stops."""
    return any(one.state not in ("stopped", "removed") for one in tables)


def current_reads(reading: Mapping[str, TableReading], tables: Sequence[TableProgress], now: datetime) -> list[Read]:
    """What is read so far of the chunks that are being read, one entry per table that is being copied.

    reading: that of a live runner's heartbeat.
    """
    rest = {one.table for one in tables if not one.being_copied}
    return [
        Read(
            "",
            None,
            None,
            table,
            one.chunks[0],
            datetime.fromisoformat(one.since),
            now,
            one.rows,
            None,
            None,
            0,
        )
        for table, one in reading.items()
        if one.rows and table not in rest
    ]


def share(tables: Sequence[TableProgress]) -> float | None:
    """The share of the expected chunks that are read, 0 to 1.

    Chunks are counted, since a source's row counts are estimates.

    Less than 1 while the chunks of a table are still being planned; None while their number cannot be estimated.
    """
    chunks, done = sum(t.expected_chunks for t in tables), sum(t.done for t in tables)
    growing = [t for t in tables if not t.complete]
    if not chunks or any(t.being_planned for t in tables) or any(t.estimated_chunks is None for t in growing):
        return None
    return min(done / chunks, _ALMOST) if growing else done / chunks


def rows_per_s(
    reads: Sequence[Read], now: datetime, window_s: float = RECENT_S, table: str | None = None
) -> float | None:
    """Rows per second over the last `window_s`; a chunk's rows are spread over its read time.

    None if nothing was read.
    """
    table_reads = [read for read in reads if table is None or read.table == table]
    if not table_reads:
        return None
    since = max(now - timedelta(seconds=window_s), min(read.started for read in table_reads))
    elapsed = (now - since).total_seconds()
    return sum(overlap_rows(read, since, now) for read in table_reads) / elapsed if elapsed > 0 else None


def overlap_rows(read: Read | RowRate, since: datetime, until: datetime) -> float:
    """The part of a chunk's rows that falls into an interval."""
    took = (read.ended - read.started).total_seconds()
    if took <= 0:
        return float(read.rows) if since <= read.ended < until else 0.0
    inside = (min(read.ended, until) - max(read.started, since)).total_seconds()
    return read.rows * max(inside, 0.0) / took


def left_of(tables: Sequence[TableProgress], reads: Sequence[Read]) -> CopyPart:
    """The work that is left. A table's chunks count as large as those already read, or else by the source's row count.

    Without either, they count as large as the average chunk of all tables.
    """
    usual = sum(read.rows for read in reads) / max(len(reads), 1)
    work = []
    for table in tables:
        chunks = table.expected_chunks - table.done
        if table.done:
            work.append(CopyPart(chunks, chunks * table.rows / table.done))
        else:
            work.append(CopyPart(chunks, chunks * usual if table.approx_rows is None else table.approx_rows))
    return CopyPart(sum(one.chunks for one in work), sum(one.rows for one in work))


def estimate(
    done: CopyPart, rest: CopyPart, reads: Sequence[Read], now: datetime, throttle: Throttle = _FREE
) -> Remaining | None:
    """The remaining time: by the speed of all reads, and by that of the newest third.

    It is computed from rows, since a small table is a chunk too. It is never less than the throttle allows; the first
    reads may have been faster. None before 1 % and three chunks are done.
    """
    worth = rest.worth(throttle)
    if done.chunks < 3 or done.worth(throttle) * 99 < worth or not rest.chunks or len(reads) < 3:
        return None
    by_end = sorted(reads, key=lambda read: read.ended)
    paces = [_pace_s(by_end, now, throttle), _pace_s(by_end[-max(len(by_end) // 3, 3) :], now, throttle)]
    each = sum(read.bytes for read in reads) / max(sum(read.rows for read in reads), 1)
    least = owed_s(throttle, rest.rows, rest.rows * each)
    low, high = sorted(max(worth * pace, least) for pace in paces)
    return Remaining(low * 0.95, high * 1.05)


def _pace_s(reads: Sequence[Read], now: datetime, throttle: Throttle) -> float:
    """Seconds per unit of work, over all readers together."""
    began = min(read.started for read in reads)
    worth = CopyPart(len(reads), sum(read.rows for read in reads)).worth(throttle)
    return max((max(now, reads[-1].ended) - began).total_seconds(), 0.001) / max(worth, 1)


def between(low_s: float, high_s: float) -> str:
    """`50–65 s`, `4–6 min`, `1.5–2 h`: both ends in the unit of the upper end."""
    unit_s, unit = next(((s, name) for s, name in ((3600.0, "h"), (60.0, "min")) if high_s >= s * 2), (1.0, "s"))
    low, high = max(low_s / unit_s, 1.0 / unit_s), max(high_s / unit_s, 1.0 / unit_s)
    digits = 1 if unit != "s" and high < 10 else 0
    low_text, high_text = (f"{end:.{digits}f}".removesuffix(".0") for end in (low, high))
    return f"{high_text} {unit}" if low_text == high_text else f"{low_text}–{high_text} {unit}"


def finish(remaining: Remaining, now: datetime) -> str:
    """When the copy ends, with the range: `02:14 UTC ± 6 min`.

    With seconds if it ends soon, with the date if not today.
    """
    middle, half_s = (remaining.low_s + remaining.high_s) / 2, (remaining.high_s - remaining.low_s) / 2
    at = zone.local(now + timedelta(seconds=middle))
    soon = middle < _SOON_S
    day = "" if at.date() == zone.local(now).date() else "%Y-%m-%d "
    range_ = f"{max(round(half_s), 1)} s" if soon and half_s < 60 else words.duration(max(round(half_s / 60), 1) * 60)
    return f"{at.strftime(day + ('%H:%M:%S %Z' if soon else '%H:%M %Z'))} ± {range_}"


def committed_position(lag: Lag | None, totals: EpochTotals, *, current: bool) -> str:
    """The committed position; empty if there is none yet.

    current: whether the reading of the lag is current. If so, this is the position of that reading, so that position
    and lag belong together; else it is the newest one that is known.
    """
    read = (lag.position or "") if lag else ""
    later = totals.last is not None and (lag is None or totals.last >= lag.ts)
    return totals.to_position or read if later and not (current and read) else read


def planning_words(record: RunnerRecord) -> str:
    """The tables that a live runner is planning, as a clause; empty if there are none.

    A command that adds tables is accepted some seconds before the runner plans them.
    """
    if names := record.planning:
        return f"{listing(names, _MOST_NAMES)} {'is' if len(names) == 1 else 'are'} being planned"
    return _PLANNING if any(one.verb == "add-table" for one in record.commands) else ""


def status_line(
    copy: Copy, lag: Lag | None, state: str, phase: str | None, stale_lag: str = "", committed: str = ""
) -> str:
    """The status in one line, in the style of gh-ost.

    stale_lag: what is known of the lag if the reading is not current.

    committed: the committed position, if it is known better than by the reading.
    """
    doing = (
        {"snapshot": "snapshotting", "streaming": "streaming"}.get(phase or "", state) if state == "running" else state
    )
    expected = f"/{words.count(copy.expected_rows)}" if copy.expected_rows is not None else ""
    lag_text = f"{_tight(words.duration(lag.lag_s))} {_tight(words.size(lag.lag_bytes))}" if lag else words.NOTHING
    lag_text = _tight(stale_lag.replace("up to ", "≤")) if stale_lag else lag_text
    chunks = f"{copy.chunks_done}/{'' if copy.split else '~'}{copy.chunks} chunks"
    unknown = words.NOTHING
    if state == "running" and not copy.halted:
        unknown = copy.planning or "not known yet"
    eta = copy.eta or ("copy done" if copy.done else unknown)
    parts = (
        f"Copy: {words.count(copy.rows)}{expected} rows, {chunks} {words.percent(copy.share)}",
        f"Changes: {words.count(copy.changes)}",
        f"Lag: {lag_text}",
        committed or (lag.position if lag else None) or "no position yet",
        f"State: {doing}",
        f"ETA: {_tight(eta) if copy.eta else eta}",
    )
    return "; ".join(parts)


def line_markup(line: str) -> str:
    """HTML with a status line.

    Streamlit's block of code would wait for a library that colours languages, 0.3 s of each page.
    """
    return f'{_LINE_STYLE}<code class="status-line">{html.escape(line)}</code>'


def _tight(text: str) -> str:
    return text.replace(" ", "")
