"""Alerts: what raises them, who acknowledged or silenced them, and where they are sent.

`alerts` raises them and words their messages, with the numbers: `alert_messages` for disks and outages (their
sentences: `engine.journal.outage_causes`), `lag_rules` for lag by glob. `engine.journal.alert_kinds` has their titles
and remedies, and their rules in words. `notifier` and `notify` send them. Events that also stand in the journal have
their words from `engine.journal.sentences`.

A new kind is an entry in `alert_kinds.ALERTS`, a row at the same place of the table in docs/operations.md, a method in
`alerts` with its event in `_HANDLERS` (and in `_OF_TABLES` if it is about a table), a line below, and, if it is
critical, its name in `spec.alert_settings.CRITICAL` and in the list *Severities* of docs/operations.md. Its message is
worded in `alerts`, or in `journal.sentences` if the event also stands in the journal. If only the source's
administrator can end it, its name is in `_AT_THE_SOURCE` of `app.common.view.status_style` too; if the watchdog raises
it, in `pipeline.active_alert.WATCHED_KINDS`. If its value is a time, its name is in `_DURATIONS` of
`app.common.view.alert_list`; if a button ends it, that is in `app.alerts.alert_acts`. `ActiveAlerts` has a method for
each event, so its number in `tests/unit/test_rooms.py` grows.

`tests/unit/docs/test_alerts.py` fails while the page, the line below or the severity is missing. Nothing tests the
other lists: they depend on what the alert is about.

lag, lag_bytes, runway    raised after `for_s` beyond the threshold; cleared after as long within it. A rule of
                          `alerts.tables` has a `lag` of its own, with its glob as the table. `lag_rules` says which
                          thresholds are in force, `alerts` compares
table_stopped             at once; cleared when the table streams again, or is removed
chunk_parked              at once, for the first chunk of a table; cleared when none of its chunks is parked
source_away               after `for_s`, at most 30 s; cleared when the source is back, or passes a later preflight
login_refused             the same for a source that answers but refuses the login
privileges_missing        the same for a source that refuses a statement for lack of privileges. For a table whose rows
                          the account may not read: at once; cleared when it is read (`run.snapshot.refused_reads`)
disk_filling              like lag, by the forecast of the destination's disk (`run.monitors.space`)
disk_full                 at once; cleared when there is room, or once a later run is running
store_away, store_refused after `for_s`, at most 30 s; cleared when the destination's store can be used, or once a later
                          run is running
helper_failed             at once, for the first helper thread that met an error (`pipeline.helpers`); cleared when all
                          work again, or once a later run is running
route_unreachable         at once, for the first route that does not take an alert; cleared when all routes have taken
                          one again
diverged                  at once, when rows of a table differ from the source; cleared when they are verified
mirror_unreadable         at once, when a verification cannot read a mirror; cleared when one has, or the table is
                          resnapshotted or removed
mirror_written            at once, for the first commit by which another program changes a mirror; cleared when all rows
                          are verified after that, or the table is resnapshotted or removed
                          (`run.monitors.mirror_monitor`)
mirror_behind             when a destination has lacked committed changes for too long; cleared when it has all, or the
                          table stops or is removed (`run.monitors.unpublished_monitor`)
format_behind             when an Iceberg table has lacked commits for 10 s because it cannot be written, or else for a
                          minute; cleared when it has all, or the table is removed (`run.monitors.format_news`)
resnapshots               when a table is resnapshotted again and again; cleared after an hour without, or when it stops
cascade, binlog_filter    at once, when the source begins to change rows without an event in its binlog, and again with
                          other names; cleared when they are gone (`run.monitors.hidden_monitor`)
source_settings           likewise, when a setting of the source is no longer what the preflight requires
source_changed            likewise, when settings, grants, certificate or version are not those of the run's beginning
new_tables                likewise, when tables appear that match the spec and are not captured
read_blocked              after `for_s`, at most 30 s, of a read that waits for a lock on the source; cleared when none
                          of the table's reads waits (`run.monitors.blocked_monitor`)
change_log_differs        at once, when an audit finds that the table's change log differs from the binlog; cleared when
                          an audit of the same part finds no difference, or the table is resnapshotted or removed
runner_lost, not_restarted    the watchdog raises them (`engine.watch`); cleared by the next run, when it runs or ends
runner_frozen             likewise, while a live process sends no heartbeat; cleared when the heartbeat is back
run_failed                at once; cleared when a later run has run for `for_s`, at most 10 s, or ended well, and when
                          one fails otherwise, which is another alert
"""
