"""The sentences with which the terminal, `status` and the console describe journal events. They are worded only here.

Of an alert, title, rule and remedy are here (`ALERTS`); its message with the numbers is in `alerting.alerts`.

A sentence does not name its table, which is shown beside it. Fields may be missing, because journals of other versions
are shown too.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.base.wording import NOTHING, count, duration, plural, rows_differ, size
from engine.journal.outage_causes import cause_of, outage

Event = Mapping[str, Any]


@dataclass(frozen=True)
class AlertText:
    """What an operator must know of a kind of alert. `{table}` stands for the table's name."""

    title: str
    fires: str
    """When it fires: the rest of a sentence that begins with "Fires when"."""
    clears: str
    """The rest of a sentence that begins with "Clears when"."""
    do: str
    """What to do."""


_MOST_NAMES = 10
"""Of the tables that a sentence names."""
_SLOW = (
    "Find what slows it down (status, the console's readers); give it more slots or less to do. After a pause: resume."
)

ALERTS: Mapping[str, AlertText] = {
    "lag": AlertText(
        "Lag",
        "the pipeline is further behind its source than the threshold",
        "the lag stays below the threshold",
        _SLOW,
    ),
    "lag_bytes": AlertText(
        "Lag in bytes",
        "more bytes of binlog than the threshold are not published yet",
        "they stay below the threshold",
        _SLOW,
    ),
    "runway": AlertText(
        "Retention left",
        "the source will purge the committed position sooner than the threshold",
        "the time left stays above the threshold",
        "Keep the binlog longer on the source (binlog_expire_logs_seconds, MariaDB: also max_binlog_total_size), or "
        "let the pipeline catch up; once it is purged only `redump --all` helps.",
    ),
    "table_stopped": AlertText(
        "Table stopped",
        "a table stops, at once",
        "the table streams again, or is removed",
        "Fix the cause, then resnapshot it: tidemark redump SPEC --table {table}. Or take it out of the pipeline: "
        "tidemark remove-table SPEC --table {table}",
    ),
    "chunk_parked": AlertText(
        "Chunk parked",
        "a chunk has failed too often, at once; one alert per table",
        "no chunk of the table is parked",
        "Fix the cause. Then: tidemark resume SPEC --table {table}",
    ),
    "diverged": AlertText(
        "Rows differ",
        "a verification finds rows that differ from the source, at once; one alert per table",
        "a verification of the table finds none",
        "Look at the rows on the page Verify, and repair them: tidemark verify SPEC --table {table} --repair",
    ),
    "mirror_unreadable": AlertText(
        "Mirror cannot be read",
        "a verification cannot read a mirror, as when a data file is gone; one alert per table",
        "a verification has read it, or the table is resnapshotted or removed",
        "Readers of the mirror fail too. Make sure that its disk is mounted and its folder can be read. If files are "
        "gone, resnapshot the table: tidemark redump SPEC --table {table}",
    ),
    "mirror_written": AlertText(
        "Mirror written",
        "another program changes rows of a mirror; one alert per table",
        "all rows of the table are verified after that, or the table is resnapshotted or removed",
        "Stop the other program: only Tidemark may write to a mirror. Repair the rows that differ: tidemark verify "
        "SPEC --table {table} --repair",
    ),
    "mirror_behind": AlertText(
        "Mirror behind",
        "a destination has lacked committed changes of a table for longer than the threshold; one alert per table",
        "it has all of them, or the table stops or is removed",
        "Look at the errors of {table} in status and in the journal. If it takes nothing although its folder can be "
        "written, resnapshot it: tidemark redump SPEC --table {table}",
    ),
    "resnapshots": AlertText(
        "Resnapshots again and again",
        "a table had to be resnapshotted a quarter as often within an hour as `source.max_resnapshots_per_hour` "
        "allows; one alert per table",
        "it was not resnapshotted for an hour, or stops or is removed",
        "Find the statements that cause it: the console's page of {table} lists them. Each copies the whole table. The "
        "table stops at the limit.",
    ),
    "cascade": AlertText(
        "Cascade not logged",
        "a table has a new foreign key whose cascade the source does not log; one alert per table",
        "the foreign key is gone",
        "Rows of {table} may differ: repair them: tidemark verify SPEC --table {table} --repair. Replace the foreign "
        "key's ON DELETE and ON UPDATE actions by statements; or keep verify.period short, and acknowledge the alert.",
    ),
    "binlog_filter": AlertText(
        "Binlog filter",
        "binlog-do-db or binlog-ignore-db now leave out a captured database",
        "the binlog has all captured databases again",
        "Remove binlog-do-db and binlog-ignore-db from the server's configuration, and restart it. Then repair what "
        "was left out: tidemark verify SPEC --repair",
    ),
    "source_settings": AlertText(
        "Source settings",
        "the source no longer has a setting that the preflight requires, such as `binlog_format = ROW`; a run looks "
        "every minute and after each outage",
        "all of them are as required again",
        "Set it on the source so that it survives a restart: tidemark check SPEC shows the statement. Sessions that "
        "are connected keep the old value until they connect again.",
    ),
    "source_changed": AlertText(
        "Source changed",
        "settings, grants, the TLS certificate or the version of the source are not those of the run's beginning; a "
        "run compares them every minute and after each outage",
        "they are as they were, or a later run begins",
        "Find out who changed that, and why. If it is meant, acknowledge the alert: the next run begins with the new "
        "values. Live, Source has both.",
    ),
    "new_tables": AlertText(
        "New tables",
        "tables have appeared that match `source.tables`, and `source.new_tables` is `ignore` or `refuse`",
        "they are captured, excluded or gone",
        'Capture them: tidemark add-table SPEC --table …, or source.new_tables = "add". '
        'Otherwise exclude them in source.tables. With new_tables = "refuse", the next run does not start until then.',
    ),
    "read_blocked": AlertText(
        "Read blocked",
        "a read of a table has waited for a lock on the source for the duration of the rules, at most 30 s; "
        "one alert per table",
        "no read of the table waits any more",
        "Find the session that holds the lock, and finish or end what it does. Nothing is lost; the table's copy "
        "waits.",
    ),
    "change_log_differs": AlertText(
        "Change log differs",
        "an audit of the runner finds that a change log differs from the binlog, at once; one alert per table",
        "an audit of the same part finds no difference, or the table is resnapshotted or removed",
        "List the differences: tidemark audit SPEC --table {table}. Find out who wrote to the table's folder, and "
        "verify its mirror: tidemark verify SPEC --table {table} --repair. "
        "If the change log cannot be put right, acknowledge the alert.",
    ),
    "run_failed": AlertText(
        "Run failed",
        "a run ends with an error, at once",
        "a later run has run for the duration of the rules, at most 10 s, or ended well, or failed for another reason",
        "Fix the cause, and start the pipeline again. It continues from the committed position.",
    ),
    "source_away": AlertText(
        "Source unreachable",
        "the source has not answered for the duration of the rules, at most 30 s",
        "the source answers again",
        "Check the source and the network. Nothing is lost as long as the source keeps its binlog.",
    ),
    "login_refused": AlertText(
        "Login refused",
        "the source has refused the login for the duration of the rules, at most 30 s",
        "a login succeeds",
        "Check the password and the account on the source. The run ends when logins have been refused for five "
        "minutes; nothing is lost as long as the source keeps its binlog.",
    ),
    "privileges_missing": AlertText(
        "Privileges missing",
        "the source has refused a statement for lack of privileges for the duration of the rules, at most 30 s",
        "the source permits it",
        "Grant the account what `tidemark check` lists. The run continues by itself; it ends after five minutes "
        "without the privileges. Nothing is lost as long as the source keeps its binlog.",
    ),
    "disk_full": AlertText(
        "Disk full",
        "a disk is full or read-only, or a folder of the pipeline or the destination may not be written any more; "
        "at once",
        "it can be written again",
        "Free space on the disk, or make it writable again. The pipeline then continues by itself.",
    ),
    "disk_filling": AlertText(
        "Disk filling",
        "at the growth of the last day, the destination's disk is full sooner than the threshold",
        "the time until then stays above the threshold",
        "Make room: shorten sink.changes_retention or sink.files_retention, move other files away, or enlarge the "
        "disk.",
    ),
    "helper_failed": AlertText(
        "Helper failed",
        "a background thread fails, at once",
        "all background threads work again",
        "Read the message: it says what does not work. The thread retries on its own.",
    ),
    "route_unreachable": AlertText(
        "Route unreachable",
        "a webhook, Slack, PagerDuty or a mail server does not take an alert, or the route's secret is missing, at "
        "once",
        "all routes have taken an alert again",
        "The message names the route. Check the receiver, and the route in the spec; Send test on the console's page "
        "Alerts tries it. A secret in a file is read again at each try; one in a variable, when a process starts. "
        "Until then, look at the alerts here and in status.",
    ),
    "runner_lost": AlertText(
        "Runner lost",
        "the heartbeat stops without an end of the run; the watchdog sees that, "
        "which is the console or `tidemark watch`",
        "a runner is alive, or has ended by itself",
        "Check the host and the end of the runner's log, then restart. The run continues from the committed position.",
    ),
    "not_restarted": AlertText(
        "Not restarted",
        "the watchdog should restart a runner and gives up: the limit of the hour is reached, "
        "or the runner does not start",
        "a runner is alive, or has ended by itself",
        "Read the end of the runner's log, fix the cause, and start the pipeline: tidemark run SPEC. "
        "The watchdog then restarts it again.",
    ),
}
"""By kind. The terminal, the webhook and the console show the same remedies; docs/operations.md lists the kinds too."""


def alert_title(kind: str) -> str:
    """The name of a kind of alert; `kind` itself if another version has written it."""
    return ALERTS[kind].title if kind in ALERTS else kind


def remedy(kind: str, table: str | None = None) -> str:
    """What to do about an alert; empty for an unknown kind."""
    return ALERTS[kind].do.replace("{table}", table or "TABLE") if kind in ALERTS else ""


def describe(kind: str, event: Event) -> str:
    """One sentence without its full stop; `kind` itself if there is no sentence for it.

    kind: the event's name in the journal.
    """
    worded = _SENTENCES.get(kind)
    return worded(event) if worded else kind


def failure(kind: str, event: Event) -> str:
    """The subject of the failure and the error's message, for `error`, `chunk.failed` and `chunk.parked`."""
    message = event.get("message") or event.get("error") or "failed"
    if kind == "chunk.parked":
        return parked(event)
    return f"{named_chunks(numbers_of(event))}: {message}" if kind == "chunk.failed" else str(message)


def retry(event: Event) -> str:
    """` – attempt 2, next in 4 s`; empty if nothing is retried."""
    if event.get("retry_in_s") is None:
        return ""
    attempt = f"attempt {event['attempt']}, " if event.get("attempt") else ""
    return f" – {attempt}next in {duration(event['retry_in_s'])}"


def parked(event: Event, table: str = "") -> str:
    """The sentence for a parked chunk. table: if given, it is named too."""
    of = f" of {table}" if table else ""
    tries = plural(event.get("attempts") or 0, "attempt")
    return f"Chunk {event.get('chunk')}{of} was parked after {tries}: {event.get('message')}"


def named_chunks(numbers: Sequence[int]) -> str:
    """`Chunk 3`, `Chunks 3, 7–9`."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    ranges = ", ".join(str(a) if a == b else f"{a}–{b}" for a, b in parts)
    return f"Chunk{'s' if len(numbers) > 1 else ''} {ranges}"


def numbers_of(event: Event) -> list[int]:
    """The numbers of the chunks that an event is about."""
    chunks = event.get("chunks")
    return [n for n in chunks if isinstance(n, int)] if isinstance(chunks, list) else [int(event.get("chunk") or 0)]


def hidden(event: Event, table: str | None = None) -> str:
    """The sentence for changes that the binlog lacks. table: if given, it is named too."""
    names, of = ", ".join(map(str, event.get("names") or ())), f" of {table}" if table else ""
    if event.get("kind") == "new_tables":
        return _left_out([str(name) for name in event.get("names") or ()])
    if event.get("kind") == "source_changed":
        return _changed([str(name) for name in event.get("names") or ()])
    if event.get("kind") == "source_settings":
        return f"The source's settings changed: {names}" if names else "The source has all required settings again"
    if event.get("kind") == "binlog_filter":
        return f"The source leaves out of its binlog: {names}" if names else "The binlog has all captured databases"
    if names:
        return f"Foreign keys change rows{of} without an event in the binlog: {names}"
    return f"No foreign key changes rows{of} without an event in the binlog any more"


def _changed(names: list[str]) -> str:
    if not names:
        return "The source is as it was when the run began"
    more = f"; and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"The source changed since the run began: {'; '.join(names[:_MOST_NAMES])}{more}"


def _left_out(names: list[str]) -> str:
    if not names:
        return "All tables that match source.tables are captured"
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return (
        "New tables match source.tables and are not captured (source.new_tables): "
        f"{', '.join(names[:_MOST_NAMES])}{more}"
    )


def blocked(event: Event, table: str | None = None) -> str:
    """The sentence for reads that wait for a lock, and who holds it. table: if given, it is named too."""
    of = f" of {table}" if table else ""
    if not event.get("since"):
        return f"No read{of} waits for a lock on the source any more"
    what = f"Reads{of} have waited for a {event.get('lock')} on the source since {str(event['since'])[11:19]}Z"
    parts = [what, str(event.get("unseen") or ""), *map(_holder, event.get("sessions") or ())]
    return ". ".join(part for part in parts if part)


def _holder(session: Mapping[str, Any]) -> str:
    who = f"Connection {session.get('connection')} ({session.get('user')}@{session.get('host')})"
    lock = f" ({session['lock']})" if session.get("lock") else ""
    does = {"holds": f"holds it{lock}", "waits": f"waits for it too{lock}, before them"}.get(
        str(session.get("role")), "may hold it"
    )
    state = "idle" if session.get("idle") else "busy"
    text = (
        f"; {'last' if session.get('idle') else 'its'} statement: {session['statement']}"
        if session.get("statement")
        else ""
    )
    return f"{who} {does}, {state} since {str(session.get('since'))[11:19]}Z{text}"


def written(event: Event, table: str | None = None) -> str:
    """The sentence for a mirror that another program changed. table: if given, it is named too."""
    of, commits, newest = f" of {table}" if table else "", event.get("commits") or 0, event.get("newest")
    if not commits:
        again = "resnapshotted" if event.get("cleared_by") == "resnapshot" else "verified"
        return f"All rows of the mirror{of} were {again} after another program's changes"
    one = newest[0] if isinstance(newest, list | tuple) and newest else {}
    what = f"{one.get('operation')} by {one.get('author')}, {str(one.get('at'))[:19]}Z"
    more = f", and {plural(commits - 1, 'earlier commit')}" if commits > 1 else ""
    return f"Another program changed rows of the mirror{of}: version {one.get('version')} ({what}){more}"


def audited(event: Event) -> str:
    """`1,204 images of 3 tables, no difference`."""
    images = f"{plural(event.get('images') or 0, 'image')} of {plural(event.get('tables') or 0, 'table')}"
    return f"{images}, {plural(event['differences'], 'difference') if event.get('differences') else 'no difference'}"


def _reason(event: Event) -> str:
    return f" – {event['reason']}" if event.get("reason") else ""


def _connected(event: Event) -> str:
    source, spark = event.get("source"), event.get("spark")
    server, cluster = "the source", ""
    if isinstance(source, dict):
        server = f"{source.get('flavor')} {source.get('version')}, low watermarks: {source.get('watermark_class')}"
    if isinstance(spark, dict):
        cluster = f"; Spark {spark.get('version')} on {spark.get('master')}, {spark.get('slots')} slots"
    return f"Connected to {server}{cluster}"


def _controls(event: Event) -> str:
    tables, limits = event.get("tables"), event.get("throttle")
    parts = ["the snapshot is paused"] if event.get("snapshot") else []
    parts += [f"paused tables: {', '.join(map(str, tables))}"] if isinstance(tables, list) and tables else []
    parts += [f"{name} {value}" for name, value in limits.items()] if isinstance(limits, dict) else []
    parts += [f"until {event['until']}"] if event.get("until") else []
    return "; ".join(parts) or "no pauses or limits beyond the spec"


def _nulled(event: Event) -> str:
    columns = event.get("columns")
    known = columns if isinstance(columns, dict) else {}
    return ", ".join(f"{plural(times, 'value')} of {column}" for column, times in known.items())


def behind(event: Event) -> str:
    """That a mirror lacks committed changes, or none any more."""
    if not event.get("since"):
        return "The mirror has all committed changes again"
    since = f"since {str(event['since'])[:19]}Z"
    if event.get("epoch") is None:
        return f"A resnapshot is due {since} and has not begun"
    return f"The mirror has lacked committed changes {since}"


def _planned(event: Event) -> str:
    """The number of chunks. An empty list means that the table is split during its snapshot."""
    if event.get("chunks"):
        return plural(len(event["chunks"]), "chunk")
    about = event.get("estimated_chunks")
    return f"about {plural(about, 'chunk')}" if isinstance(about, int) else "chunks while the table is read"


def _less(saved_bytes: int) -> str:
    return f"{size(abs(saved_bytes))} {'less' if saved_bytes >= 0 else 'more'}"


def redumped(event: Event) -> int:
    """The entries of an epoch that come from redumps."""
    return sum(sum(kinds) for kinds in (event.get("redumped") or {}).values())


def _verdict(summary: Mapping[str, Any]) -> str:
    """The verdict, and why a table could not be verified."""
    why = f": {summary['why']}" if summary.get("why") and summary.get("verdict") != "verified" else ""
    return f"{summary.get('verdict')}{why}"


def _committed(event: Event) -> int:
    ranges = event.get("chunks")
    return sum(last - first + 1 for first, last in ranges) if isinstance(ranges, list) else 0


def _away(event: Event) -> str:
    until = f", gives up at {str(event['gives_up_at'])[:16]}Z" if event.get("gives_up_at") else ""
    since = f" since {str(event['since'])[11:19]}Z" if event.get("since") else ""
    return f"{outage(cause_of(event))}{since}{retry(event)}{until}: {event.get('message') or ''}"


_SENTENCES: dict[str, Callable[[Event], str]] = {
    "run.started": lambda e: f"Run {e.get('run')} started on {e.get('host')}, pid {e.get('pid')}",
    "run.connected": _connected,
    "run.state": lambda e: f"Run is {e.get('state')}{_reason(e)}",
    "run.controls": lambda e: f"Set: {_controls(e)}",
    "run.ended": lambda e: f"Run ended: {e.get('outcome') or NOTHING}",
    "watch.restarted": lambda e: (
        f"The watchdog restarted the runner ({e.get('restart')} of {e.get('most')} within an hour): {e.get('why')}"
    ),
    "watch.stays_down": lambda e: f"The watchdog does not restart the runner: {e.get('why')}",
    "error": lambda e: failure("error", e) + retry(e),
    "table.resumed": lambda e: f"Found {plural(_committed(e), 'committed chunk')}",
    "table.planned": lambda e: f"Planned {_planned(e)}: {str(e.get('reason')).removeprefix('one chunk: ')}",
    "table.nulled": lambda e: f"Invalid dates became NULL: {_nulled(e)}",
    "table.state": lambda e: f"Table is {e.get('state')}{_reason(e)}",
    "chunk.failed": lambda e: failure("chunk.failed", e) + retry(e),
    "chunk.parked": parked,
    "chunk.unparked": lambda e: f"Chunk {e.get('chunk')} is no longer parked{_reason(e)}",
    "redump.chunk": lambda e: f"Redumped {count(e.get('rows'))} rows",
    "epoch.committed": lambda e: (
        f"Epoch {e.get('epoch')}: {plural((e.get('changes') or 0) - redumped(e), 'change')}"
        + (f" and {plural(redumped(e), 'redumped change')}" if redumped(e) else "")
        + f" to {e.get('to_position')}"
    ),
    "sink.applied": lambda e: (
        f"{str(e.get('sink') or 'Sink').capitalize()} {e.get('kind')} through epoch {e.get('through_epoch')}: "
        f"{count(e.get('rows'))} rows"
    ),
    "sink.maintained": lambda e: (
        f"Maintenance ({e.get('step')}): {plural(e.get('removed_files') or 0, 'file')} became "
        f"{count(e.get('added_files'))}, {_less((e.get('removed_bytes') or 0) - (e.get('added_bytes') or 0))}"
    ),
    "table.verified": lambda e: (
        f"Verification: {rows_differ(e['differences'])}"
        if e.get("differences")
        else f"Verification: {_verdict(e.get('summary') or {})}"
    ),
    "mirror.written": written,
    "mirror.behind": behind,
    "changelog.kept": lambda e: (
        f"The change log began again; the one until {str(e.get('until'))[:19]}Z is in {e.get('folder')}"
    ),
    "source.hidden": hidden,
    "source.blocked": blocked,
    "audit.done": lambda e: f"Audit: {audited(e)}",
    "disk.freed": lambda e: f"The disk has space again, after {plural(e.get('attempts') or 0, 'failure')}",
    "helper.recovered": lambda e: f"{e.get('helper')} works again, after {plural(e.get('errors') or 0, 'error')}",
    "alert.cleared": lambda e: f"Alert cleared: {e.get('message')}",
    "command.refused": lambda e: f"Refused {e.get('verb')}: {e.get('message')}",
    "source.event": lambda e: (
        f"{str(e.get('kind') or 'event').capitalize()} at {e.get('position')}"
        + (f": {e['statement']}" if e.get("statement") else "")
    ),
    "source.away": _away,
    "source.connections": lambda e: (
        f"The source allows few connections: the run has {e.get('allowed')} at most, and "
        f"{plural(e.get('readers') or 1, 'reader')} at once"
    ),
    "source.back": lambda e: f"The source is reachable again after {duration(e.get('seconds'))}",
    "source.failover": lambda e: (
        f"Failover by GTID from {e.get('from_identity')} at {e.get('from_position')} to {e.get('to_identity')} at "
        f"{e.get('to_position')}"
    ),
}
