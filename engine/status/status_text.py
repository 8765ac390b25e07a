"""`status` as text."""

from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Console

from engine.base.text_grid import text_grid
from engine.base.wording import ages, duration, plural, sentences, shell_word, size, stop_sentence, utc_time
from engine.journal.outage_causes import outage
from engine.journal.sentences import audited, blocked, parked
from engine.pipeline.helpers import SPARK
from engine.pipeline.known_lag import NOT_MEASURED, KnownLag
from engine.pipeline.state_words import STATES, WRITE_ENDS, shown_state, table_state
from engine.pipeline.table_verdict import label_of
from engine.plan.mirror_labels import LABELS
from engine.status.status_records import Status, TableStatus, TableVerification


def print_status(out: Console, now: Status) -> None:
    """Print a pipeline's status."""
    _print_state(out, now)
    _print_ages(out, now)
    if now.log.unknown_events:
        out.print(f"skipped events that this version does not know: {now.log.unknown}", style="red", markup=False)
    numbers = ("chunks", "rows read", "changes")
    grid = text_grid("table", "state", *numbers, "merging", "verified", right=numbers)
    for t in now.tables:
        chunks = f"{t.chunks_done:,}/{t.chunks_total:,}"
        words = table_state(t.state, _shown(now))
        state = f"{words} ({t.destination})" if t.destination else words
        grid.add_row(
            t.table,
            state,
            chunks,
            f"{t.rows_read:,}",
            f"{t.changes_applied:,}",
            LABELS[t.mirror] if t.mirror else "—",
            _verified(t.verification),
        )
    out.print(grid)
    _print_files(out, now)
    for standby in now.standby:
        out.print(f"standing by since {utc_time(standby.since)}: {standby.host}, pid {standby.pid}", markup=False)
    _print_waits(out, now)
    if now.queue:
        why = "no runner is alive" if now.frozen is None else "the runner does not respond"
        out.print(f"{plural(len(now.queue), 'command')} in the queue, {why}: tidemark queue SPEC", markup=False)
    for t in (t for t in now.tables if t.error):
        remove = f"tidemark remove-table SPEC --table {shell_word(t.table)}"
        leaves = "" if remove in (t.hint or "") else f"Or take it out of the pipeline: {remove}"
        out.print(sentences(stop_sentence(t.table, t.error or ""), t.hint, leaves), markup=False)
    _print_lacks(out, now.tables)
    _print_chunks(out, now.tables)
    _print_alerts(out, now)
    if now.error:
        out.print(f"last error: {now.error.message}", markup=False)
    if now.watch:
        at = f"restarts the runner at {utc_time(now.watch.due)}"
        what = f"does not restart the runner: {now.watch.down}" if now.watch.down else at
        out.print(f"The watchdog {what}.", markup=False)


def _print_state(out: Console, now: Status) -> None:
    """Print the first line, and below it what to do about a runner that does not respond, or may not."""
    out.print(first_line(now), markup=False)
    if now.spec_fault:
        out.print(now.spec_fault, style="red", markup=False)
    if silent := now.frozen or now.unseen:
        out.print(sentences(silent.message, silent.detail, silent.hint), style="red", markup=False)


def _print_ages(out: Console, now: Status) -> None:
    """How old the tables are, and how long the source keeps what the pipeline needs."""
    if now.mirror_oldest:
        age = f"{now.mirror_age_s:.1f} s"
        behind = f"mirrors are at most {age} behind the change log"
        if now.write_outage is not None:
            behind = f"the tables in the destination are up to {age} old"
        out.print(f"{behind} (oldest: {now.mirror_oldest})", markup=False)
    if fresh := _freshness(now):
        out.print(fresh, markup=False)
    if now.runway_s == 0:
        out.print("the source may have purged this position already", markup=False)
    elif now.runway_s is not None:
        out.print(f"the source keeps this position for {now.runway_s / 3600:,.1f} h", markup=False)


def _freshness(now: Status) -> str:
    """How soon changes can be read; "" if none came in the last ten minutes, or the lag is not current."""
    if now.lag_s is None:
        return ""
    places = [("the change log", now.log.log_freshness_s), ("the mirrors", now.log.mirror_freshness_s)]
    parts = [f"in {place} after {ages(fresh)}" for place, fresh in places if fresh]
    return f"changes can be read {', '.join(parts)}" if parts else ""


def first_line(now: Status) -> str:
    """The state as the console's lights have it, the stopped tables, the committed position and the lag."""
    state_key = _shown(now)
    state = STATES.get(state_key, state_key)
    if away := now.away:
        state += f" since {utc_time(away.since)}"
    elif state_key in ("lost", "frozen") and now.heartbeat_age_s is not None:
        state += f", last heartbeat {duration(round(now.heartbeat_age_s))} ago"
    elif state_key == "running":  # nobody carries out the phase of any other state
        state += f", {now.phase}"
    stopped = [t.table for t in now.tables if t.error]
    tables = f"; {plural(len(stopped), 'table')} stopped: {', '.join(stopped)}" if stopped else ""
    return f"{now.pipeline}: {state}{tables}; {_progress(now)}"


def _progress(now: Status) -> str:
    """The committed position and the lag."""
    if now.position is None:
        return "nothing is committed yet"
    lag = KnownLag(now.lag_s, at_most=False) if now.lag_s is not None else KnownLag(now.lag_at_most_s, at_most=True)
    words = NOT_MEASURED if now.measured is None else lag.words
    behind = f", {now.lag_bytes:,} bytes" if now.lag_s is not None else ""
    return f"position {now.lag_position or now.position}; lag {words}{behind}"


def _shown(now: Status) -> str:
    """The key of `state_words.STATES`."""
    state = {"never started": "new", "stopped": "ended"}.get(now.state, now.state)
    away = None if now.away is None else now.away.cause
    unwritten = now.write_outage.fault if now.write_outage else None
    silent = any(one.helper == SPARK for one in now.helpers)
    return shown_state(state, away=away, unwritten=unwritten, silent_spark=silent)


def _print_alerts(out: Console, now: Status) -> None:
    """Print the active alerts and the silences. The lines above have the text of a stopped table."""
    stop_messages = {stop_sentence(t.table, t.error) for t in now.tables if t.error}
    for alert in now.alerts:
        owner = alert.acknowledged
        seen = f"Acknowledged by {owner.actor} at {utc_time(owner.at)}." if owner else ""
        silenced = ""
        if by := alert.silenced:
            silenced = f"Silenced by {by.actor} until {utc_time(by.until)}: {by.reason}"
        style = "yellow" if alert.acknowledged else "red"
        message, hint = (
            (f"{alert.table} stopped", "") if alert.message in stop_messages else (alert.message, alert.hint)
        )
        what = f"alert since {utc_time(alert.since)}: {message}"
        out.print(sentences(what, hint, seen, silenced), style=style, markup=False)
    for one in now.silences:
        which = " of ".join(part for part in (one.kind or "all alerts", one.table) if part)
        text = f"silenced until {utc_time(one.until)} by {one.actor}: {which}: {one.reason} (silence {one.id})"
        out.print(text, style="yellow", markup=False)


def _print_lacks(out: Console, tables: Sequence[TableStatus]) -> None:
    """Print which tables will be resnapshotted, and whose mirrors are behind."""
    for t in tables:
        if t.due:
            out.print(f"{t.table} will be resnapshotted: {t.due}", style="yellow", markup=False)
        elif t.lacks_since:
            text = f"{t.table}: its destination has lacked committed changes since {utc_time(t.lacks_since)}"
            out.print(text, style="red", markup=False)


def _verified(verification: TableVerification | None) -> str:
    """`verified 2026-11-25 09:30:17 UTC`, `3 rows differ`, `not verified: 1 of 5 parts were compared so far`."""
    if verification is None:
        return "—"
    label = label_of(verification.state, verification.differences, readable=verification.readable)
    if verification.state == "verified":
        return f"{label.lower()} {utc_time(verification.at)}"
    why = verification.why.removeprefix("its mirror cannot be read: ")  # as the label says
    return f"{label.lower()}: {why}" if why else label.lower()


def _print_files(out: Console, now: Status) -> None:
    """Print the last audit, the sizes of files, and the disk."""
    if last := now.last_audit:
        out.print(f"last audit of the change logs, {utc_time(last.at)}: {audited(last)}", markup=False)
    sizes = ", ".join(f"{name.replace('_', ' ')} {total / 1e6:,.1f} MB" for name, total in asdict(now.sizes).items())
    out.print(f"the pipeline's files: {sizes}", markup=False)
    for change in now.source.changes if now.source else ():
        what = f"{change.what} {change.name}" if change.what in ("setting", "grant") else change.what
        text = f"the source's {what} changed, seen {utc_time(change.seen)}: {change.before} became {change.after}"
        out.print(text, style="yellow", markup=False)
    if disk := now.disk:
        when = "" if disk.full_in_s is None else f", full in {duration(disk.full_in_s)} at the growth of the last day"
        free = f"{size(disk.free_bytes)} of {size(disk.total_bytes)} free"
        out.print(f"the disk of {disk.folder}: {free}{when}", markup=False)


def _print_waits(out: Console, now: Status) -> None:
    """Print why nothing starts now, and which helpers fail."""
    if away := now.away:
        until = f"gives up at {utc_time(away.gives_up_at)}" if away.gives_up_at else "no time limit"
        what = outage(away.cause)
        text = (
            f"{what[:1].lower()}{what[1:]} since {utc_time(away.since)}: attempt {away.attempt}, {until}: {away.error}"
        )
        out.print(text, style="yellow", markup=False)
    if wait := now.write_outage:
        text = f"waits: {wait.reason}; it continues by itself once {WRITE_ENDS[wait.fault]}"
        if wait.cause != "disk":
            since = f"since {utc_time(wait.since)}: attempt {wait.attempt}, no time limit"
            text = sentences(f"waits {since}: {wait.reason}; it continues by itself", wait.hint)
        out.print(text, style="yellow" if wait.cause == "store_away" else "red", markup=False)
    elif now.waiting_for:
        out.print(f"chunk reads wait: {now.waiting_for}", markup=False)
    for read in now.blocked:
        out.print(sentences(blocked(read, read.table), read.hint), style="red", markup=False)
    for sink in now.sinks:
        text = f"sink {sink.sink} ({sink.type}, {sink.path}): {sink.words}"
        out.print(text, style="red" if sink.state in ("retrying", "stopped") else "", markup=False)
    for helper in now.helpers:
        text = f"since {utc_time(helper.since)} ({plural(helper.errors, 'error')}): {helper.message}"
        out.print(sentences(text, helper.hint), style="red", markup=False)


def _print_chunks(out: Console, tables: Sequence[TableStatus]) -> None:
    """Print the longest-running reads and the parked chunks."""
    for t in tables:
        if t.reading:
            chunks = ", ".join(map(str, t.reading.chunks))
            rows = f", {t.reading.rows:,} rows so far" if t.reading.rows else ""
            text = f"{t.table}: chunk {chunks} is being read for {t.reading.seconds:,.1f} s{rows}"
            out.print(text, markup=False)
        for p in t.parked:
            place = f"[{p.lower or '…'}, {p.upper or '…'})"
            out.print(sentences(parked(p, t.table), p.hint, f"Its range: {place}"), style="red", markup=False)
