"""The journal: what happened in each run of a pipeline.

events.py             the events, and the format of a line; more of them in `*_events.py`, their nested records in
                      `event_fields` and `verification_summary`. A new one is a class there, a kind in
                      `app.live.view.event_feed.KINDS`, and a sentence in `sentences`; if DuckDB's history or alerts
                      use it, a row in `engine.history.journal_rows` or a handler in `engine.alerting.alerts`
journal.py            `Journal`: writes the events of a run
sentences.py          an event as a sentence
alert_kinds.py        titles, rules and remedies of alerts
linefile.py           the file below it: whole lines, also on a full disk
afterword.py          events that the watchdog adds to the journal of a run that has ended
event_lines.py        events that are read back from lines of other versions
parts.py              the parts of journals: their names, their order, reading them
expiry.py             deletes old parts and compresses closed ones
"""

from engine.journal.journal import Entry, Journal, entry_from

__all__ = ["Entry", "Journal", "entry_from"]
