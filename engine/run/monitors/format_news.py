"""Events about other formats of tables that fall behind (`destination.capabilities.PublishesFormats`)."""

from collections.abc import Iterable, Iterator
from datetime import timedelta

from engine.base import clock
from engine.destination.capabilities import FormatState
from engine.journal.verification_events import FormatBehind, FormatWritten

FAILING_S, SLOW_S = 10.0, 60.0
"""After how long a missing commit is reported: if the format cannot be written, and if it is only slow."""


def format_news(failures: dict[str, str], states: Iterable[FormatState]) -> Iterator[FormatBehind | FormatWritten]:
    """Events about tables whose formats fall behind or lack nothing any more, and about other programs' commits.

    failures: the reported failure of each table that is behind, "" if it is only slow; updated.
    """
    behind = dict[str, FormatState]()
    waiting_tables = set[str]()
    for one in states:
        for commit in one.foreign_commits:
            yield FormatWritten(table=one.table, place=one.place, commit=commit)
        if one.behind_s:
            waiting_tables.add(one.table)
        if one.behind_s >= (FAILING_S if one.failure else SLOW_S):
            behind.setdefault(one.table, one)
    for name in sorted(failures.keys() - behind.keys() - waiting_tables):
        del failures[name]
        yield FormatBehind(table=name)
    for name, one in behind.items():
        if failures.get(name) != one.failure:
            failures[name] = one.failure
            since = clock.utc_text(clock.utc_now() - timedelta(seconds=one.behind_s))
            yield FormatBehind(table=name, place=one.place, since=since, failure=one.failure, hint=one.hint)
