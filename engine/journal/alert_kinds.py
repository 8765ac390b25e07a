"""What an operator must know of each kind of alert. Title, rule and remedy are worded only here.

The messages with the numbers are in `alerting.alerts` and `journal.sentences`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from engine.base.wording import shell_word


@dataclass(frozen=True)
class AlertText:
    """What an operator must know of a kind of alert.

    `{table}` stands for the table's name, `{pid}` for the number of the runner's process.
    """

    title: str
    fires: str
    """When it fires: the rest of a sentence that begins with "Fires when"."""
    clears: str
    """The rest of a sentence that begins with "Clears when"."""
    do: str
    """What to do."""


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
        "Readers of the mirror fail too. Make sure that its disk is mounted and its folder can be read, or that its "
        "database answers. If files, columns or values are gone or damaged, resnapshot the table: "
        "tidemark redump SPEC --table {table}",
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
    "format_behind": AlertText(
        "Iceberg behind",
        "the Iceberg table of a table lacks commits that its Delta table has, for 10 s if it cannot be written, else "
        "for a minute; one alert per table",
        "it has all of them, or the table is removed",
        "The Delta table is right, and the Iceberg table is right up to its last snapshot. Look at the error in the "
        "journal; the runner keeps trying. If the folder with the metadata is damaged, delete it: it is published "
        "again.",
    ),
    "resnapshots": AlertText(
        "Resnapshots again and again",
        "a table had to be resnapshotted a quarter as often within an hour as `source.max_resnapshots_per_hour` "
        "allows; one alert per table",
        "it was not resnapshotted for an hour, or stops or is removed",
        "Find the statements that cause it: the console's page of {table} lists them, which may be on "
        "other tables. If binlog_format is not ROW, set it: tidemark check SPEC shows the statement. Each resnapshot "
        "copies the whole table. The table stops at the limit.",
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
        "Find out who changed that, and why; Live, Source has both values. tidemark check SPEC says whether a run "
        "still has all it needs, and shows the statements that give it back. If the change is meant and nothing is "
        "missing, acknowledge the alert: the next run begins with the new values.",
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
        "the source has refused a statement for lack of privileges for the duration of the rules, at most 30 s; "
        "for reads of one table, at once",
        "the source permits it",
        "Grant the account what `tidemark check` lists. The run continues by itself; it ends after five minutes "
        "without the privileges. Nothing is lost as long as the source keeps its binlog.",
    ),
    "disk_full": AlertText(
        "Disk takes no files",
        "a disk is full or read-only, or a folder of the pipeline or the destination may not be written any more; "
        "at once",
        "it can be written again",
        "Free space on the disk, or make it writable again. The pipeline then continues by itself.",
    ),
    "store_away": AlertText(
        "Store away",
        "the store of the destination has not answered for the duration of the rules, at most 30 s",
        "the store can be used again",
        "Check the store and the network. The pipeline waits without a limit, and then continues by itself. Nothing is "
        "lost as long as the source keeps its binlog.",
    ),
    "store_refused": AlertText(
        "Store refuses the credentials",
        "the store of the destination has refused the credentials for the duration of the rules, at most 30 s",
        "the store can be used again",
        "Renew the credentials, or give them the permissions of docs/s3.md or docs/azure.md. Those of a role "
        "are renewed while the run waits; after new ones in the environment, stop the run and start it again. Nothing "
        "is lost as long as the source keeps its binlog.",
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
        "a background thread fails, or Spark does not answer, at once",
        "all background threads work, and Spark answers",
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
        "Check its process on its host and the end of the runner's log. If the process is there, continue it with "
        "kill -CONT {pid}, or end it with kill {pid}. Then restart. The run continues from the committed position.",
    ),
    "runner_frozen": AlertText(
        "Runner not responding",
        "the process of a runner lives, but has sent no heartbeat for 10 s; the watchdog sees that, "
        "which is the console or `tidemark watch`",
        "the heartbeat is back, or the process has ended",
        "If somebody stopped the process, as Ctrl-Z does, continue it: kill -CONT {pid}. Otherwise end it with "
        "kill {pid}, or else kill -9 {pid}, then restart. The run continues from the last commit.",
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


def remedy(kind: str, table: str | None = None, *, pid: int | None = None) -> str:
    """What to do about an alert; empty for an unknown kind. pid: of the runner, if the alert is about its process."""
    if kind not in ALERTS:
        return ""
    name, text = table or "TABLE", ALERTS[kind].do.replace("--table {table}", "--table {word}")
    return text.format(table=name, word=shell_word(name), pid=pid or "PID")
