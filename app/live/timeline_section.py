"""The timeline of a pipeline, live or of a past run.

It shows what the pipeline did above its throughput and lag, and the events behind it.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType

import pandas as pd
import streamlit as st

from app.common import columns, home, places, selection
from app.common.autorefresh import INTERVAL_S, autorefresh
from app.common.charts import plot
from app.common.view import words, zone
from app.common.view.figure import iso
from app.common.view.health import LAG_FINE_S
from app.live.view import curves, run_timeline, timeline_figure
from engine.base import clock
from engine.base.errors import TidemarkError
from engine.history import runs, series, timeline_queries
from engine.history.timeline_queries import Moment
from engine.pipeline.directory import Directory
from engine.spec import settings

_RUNS, _MOMENTS = 200, 500
_GO, _CLICKS = "event to open", "clicks on timelines"


@autorefresh(2 * INTERVAL_S)
def live(where: Directory, span_s: int) -> None:
    """The last seconds of a pipeline, or those before its last event.

    A figure was a third of the page's cost in a browser when it was drawn every two seconds, and it shows minutes.
    """
    name, now = where.root.name, clock.utc_now()
    if event := st.session_state.pop(_GO, None):
        selection.open_event(event)
        st.rerun()
    run, runner = home.ask(runs.latest_run, name), home.record_of(where)
    alive = runner.run if runner and runner.responds else None
    frozen = runner.run if runner and runner.frozen else None
    beats = {runner.run: clock.parse_utc(runner.heartbeat)} if runner and runner.heartbeat else {}
    until = now if alive or frozen else curves.end(now, run.last_event if run else None)
    first = runs.first_started(home.fresh(), name)
    since = curves.start(until - timedelta(seconds=span_s), until, [first] if first else [])
    if until < now:
        st.caption(f"There is no event after {words.date_time(until)}; the time before it is shown.")
    _draw(name, since, until, _thresholds(where), alive, beats, frozen)


def past(name: str, since: datetime, until: datetime, where: Directory | None) -> None:
    """A run from its begin to its end. where: its pipeline; None if that was removed."""
    if event := st.session_state.pop(_GO, None):
        st.switch_page(places.LIVE, query_params={"pipeline": name, "section": "Events", "event": event})
    _draw(name, since, max(until, since + timedelta(seconds=1)), _thresholds(where))


def _thresholds(where: Directory | None) -> list[curves.Threshold]:
    try:
        alerts = settings.load(where.spec).alerts if where is not None else None
    except TidemarkError:
        alerts = None
    return curves.thresholds(alerts.lag_s if alerts else None, alerts.lag_bytes if alerts else None)


def _draw(
    name: str,
    since: datetime,
    until: datetime,
    levels: Sequence[curves.Threshold],
    alive: str | None = None,
    beats: Mapping[str, datetime] = MappingProxyType({}),
    frozen: str | None = None,
) -> None:
    """alive: the run whose runner responds.

    It may write no event for a while when it starts, or while its source is away.

    beats: the last known heartbeats, by run. frozen: the run whose process does not respond.
    """
    cursor, width = home.fresh(), curves.width_ms(since, until)
    recent_runs = home.ask(runs.runs, name, limit=_RUNS)
    moments = timeline_queries.moments(cursor, name, since, until + timedelta(milliseconds=1), _MOMENTS)
    copies = timeline_queries.copying(cursor, name, since, until)
    lives = {one.run: run_timeline.lived_until(one, until, beats, alive=one.run == alive) for one in recent_runs}
    spans = run_timeline.activity(moments, copies, lives, until, frozen)
    starts = [span.begin for span in spans if span.name == run_timeline.STREAMING]
    spans = run_timeline.phases(spans, timeline_queries.caught_up(cursor, name, starts, LAG_FINE_S))
    spans += run_timeline.interruptions(moments, lives, until) + run_timeline.lasting(moments, lives, until)
    spans = run_timeline.within(spans, since, until)
    marks = [one for one in run_timeline.instants(moments) if since <= one.at <= until]
    points = series.lag_series(cursor, name, since, width, until)
    lifetimes = [(one.started, lives[one.run]) for one in recent_runs]
    lifetimes += [(since, lifetimes[-1][0])] if len(lifetimes) == _RUNS else []  # earlier runs are not read
    visible_curves = curves.curves_of(
        series.row_series(cursor, name, since, width, until),
        series.epoch_series(cursor, name, since, width, until),
        points,
        (since, until),
        lifetimes,
        width,
    )
    with zone.steady(until):
        figure = timeline_figure.figure(spans, marks, visible_curves, levels, since, until)
        begin = datetime.fromisoformat(iso(since))
    bounds = [one for one in run_timeline.run_bounds(moments) if since <= one.at <= until]
    lines = run_timeline.lines(spans, [*marks, *bounds])
    key, moments_by_time = f"timeline-of-{name}-{_clicks()}", [(at, moment) for at, _, _, moment in lines]
    st.markdown(
        f"**Timeline** :gray[{words.escape(zone.name())}; a click opens the closest event; "
        f"{words.escape('; '.join(level.name for level in levels))}]"
    )
    sentence = timeline_figure.alt(spans, curves.summary(points))
    plot(figure, key, sentence, lambda: _clicked(key, (since, begin), moments_by_time))
    _events(name, lines, whole=len(moments) < _MOMENTS)


def _events(name: str, lines: Sequence[tuple[datetime, str, str, Moment]], *, whole: bool) -> None:
    """The same events as a table, whose links lead to the feed too."""
    if not lines:
        return
    rows = [
        {
            "Time": at,
            "Row": row,
            "What": text,
            "Event": places.address("live", pipeline=name, section="Events", event=run_timeline.name_of(moment)),
        }
        for at, row, text, moment in lines
    ]
    with st.expander(f"{words.plural(len(rows), 'event')} of the timeline", icon=":material/list:"):
        st.dataframe(
            pd.DataFrame(rows),
            hide_index=True,
            key=f"timeline-events-of-{name}",
            height=320 if len(rows) > 8 else "auto",
            column_config={
                **columns.time("Time", 150),
                "What": st.column_config.TextColumn(width=620),
                "Event": columns.event(),
            },
            placeholder=words.NOTHING,
            alt="Events of the timeline, newest first",
        )
        if not whole:
            st.caption(f"The newest {_MOMENTS} events of the time shown.")


def _clicks() -> int:
    """How many clicks were handled.

    It is a part of the figure's key, because an autorefresh may bring the same click again.
    """
    clicks: int = st.session_state.setdefault(_CLICKS, 0)
    return clicks


def _clicked(key: str, begin: tuple[datetime, datetime], moments: Sequence[tuple[datetime, Moment]]) -> None:
    """Choose the event of the clicked bar or mark, or else the one closest in time. The next run opens it.

    begin: where the figure begins, as an instant and as the figure shows it.
    """
    points = st.session_state[key]["selection"]["points"]
    if not points or not key.endswith(f"-{_clicks()}"):
        return
    st.session_state[_CLICKS] = _clicks() + 1
    name = timeline_figure.event_of(points[0])
    if name is None:
        at = begin[0] + (datetime.fromisoformat(str(points[0]["x"])) - begin[1])
        moment = run_timeline.nearest(moments, at)
        name = None if moment is None else run_timeline.name_of(moment)
    st.session_state[_GO] = name
