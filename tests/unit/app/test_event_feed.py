"""Events as a person reads them."""

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from app.view.event_feed import KINDS, USUAL, happenings, names
from engine.events import EVENTS
from engine.history.event_queries import Event
from tests.unit.app.support import ago


def event(seq: int, name: str, age: float = 0.0, **fields: object) -> Event:
    """A journal line."""
    table = fields.get("table")
    return Event(ago(age), "r", seq, name, str(table) if table else None, json.dumps(fields))


def test_every_event_but_the_lag_has_a_kind() -> None:
    """A new event in the protocol must be shown somewhere."""
    assert set(names(KINDS)) == set(EVENTS) - {"source.lag"}


def test_requested_started_done_is_one_line_with_its_duration() -> None:
    """A command is one line, from its first word to its last."""
    command = {"id": "1", "verb": "pause", "actor": "dba", "reason": "backup"}
    done = event(2, "command.done", id="1", verb="pause", duration_s=0.4)
    (line,) = happenings([done, event(1, "command.accepted", 1, **command)])
    assert (line.text, line.duration_s) == ("Pause by dba: backup – done", 0.4)
    (refused,) = happenings([event(1, "command.refused", **command, message="not running")])
    assert (refused.text, refused.tone) == ("Pause by dba: backup – refused (not running)", "orange")


def test_a_group_of_chunks_is_one_line() -> None:
    """Three chunks of one task are read together."""
    lines = [
        event(1, "chunk.assigned", 9, table="d.t", chunks=[3, 4, 5, 9], group="g"),
        *(event(n, "chunk.finished", 9 - n, table="d.t", chunk=n, rows=1000, group="g") for n in (3, 4, 5)),
    ]
    (line,) = happenings(lines)
    assert line.text == "Chunks 3–5, 9 read: 3k rows, 1 chunk to go"
    assert line.duration_s == 5


def test_the_cutting_of_a_table_is_one_line() -> None:
    """Thousands of lines of the journal; splits are counted, and so is the end."""
    cuts = [event(n, "chunk.planned", 60 - n, table="d.t", chunks=[[n, "1", "2"]], complete=False) for n in range(50)]
    (line,) = happenings(cuts)
    assert (line.text, line.kind, line.table, line.duration_s) == ("Cut chunks 0–49", "Chunks", "d.t", 49)
    split = event(50, "chunk.planned", 5, table="d.t", chunks=[[7, "1", "1a"], [50, "1a", "2"]], complete=False)
    last = event(51, "chunk.planned", 4, table="d.t", chunks=[], complete=True)
    other = event(52, "chunk.planned", 4, table="d.u", chunks=[[0, None, None]], complete=True)
    one, two = sorted(happenings([*cuts, split, last, other]), key=lambda line: line.table)
    assert one.text == "Cut chunks 0–50; split 1 chunk larger than planned; all are cut"
    assert (two.text, two.duration_s) == ("Cut chunk 0; all are cut", None)
    assert "chunk.planned" not in names(USUAL)


def test_a_plan_says_how_many_chunks_there_will_be() -> None:
    """Those that are listed, else about how many."""

    def said(**fields: object) -> str:
        (line,) = happenings([event(1, "table.planned", table="d.t", reason="because", **fields)])
        return line.text

    assert said(chunks=[[None, "5"], ["5", None]], estimated_chunks=9) == "Planned 2 chunks: because"
    (one,) = happenings(
        [event(1, "table.planned", table="d.t", reason="one chunk: it is empty", chunks=[[None, None]])]
    )
    assert one.text == "Planned 1 chunk: it is empty"
    assert said(chunks=[], estimated_chunks=400) == "Planned about 400 chunks: because"
    assert said(chunks=[], estimated_chunks=None) == "Planned chunks as they are read: because"


def test_what_was_read_since_wants_nobody() -> None:
    """A night's failures that are over do not look like one that is not."""
    failed = event(1, "chunk.failed", table="d.t", chunks=[7], message="lost", attempt=3, retry_in_s=12)
    parked = event(2, "chunk.parked", table="d.t", chunk=8, message="bad – row", attempts=8, hint="look")
    away = event(3, "error", message="away", attempt=1, retry_in_s=4)
    told = {(one.text, one.tone) for one in happenings([replace(one, mended=True) for one in (failed, parked, away)])}
    assert told == {
        ("Chunk 7: lost – read since, or planned anew", "gray"),
        ("away – tried again since", "gray"),
        ("Chunk 8 was parked after 8 attempts: bad – row – read since, or planned anew", "gray"),
    }


def test_colour_says_who_must_act() -> None:
    """Amber while we retry, red when it is over to you."""
    retried = event(1, "chunk.failed", table="d.t", chunks=[7], message="lost", attempt=3, retry_in_s=12)
    final = event(2, "error", message="purged", detail="gone", hint="copy again", retry_in_s=None)
    ended = event(3, "run.ended", outcome="failed", exit_code=4)
    found = {line.text: line.tone for line in happenings([retried, final, ended])}
    assert found == {
        "Chunk 7: lost – attempt 3, next in 12 s": "orange",
        "purged gone copy again": "red",
        "Run ended: failed, the source can no longer be followed": "red",
    }


def test_an_alert_is_red_until_it_is_over() -> None:
    """With what to do; a repetition says so."""
    alert = {"kind": "runway", "table": None, "message": "It purges in 1.0 h.", "hint": "Keep it longer."}
    raised = event(1, "alert.raised", 9, **alert, repeat=0)
    again = event(2, "alert.raised", 8, **alert, repeat=2)
    cleared = event(3, "alert.cleared", 7, **{**alert, "message": "It purges in 9.0 h."}, repeat=2)
    assert [(line.text, line.tone, line.kind) for line in reversed(happenings([raised, again, cleared]))] == [
        ("Alert: It purges in 1.0 h. Keep it longer.", "red", "Alerts"),
        ("Alert: It purges in 1.0 h. (told again, 2 times) Keep it longer.", "red", "Alerts"),
        ("Alert is over: It purges in 9.0 h.", "gray", "Alerts"),
    ]


ANYTHING = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.lists(st.integers(), max_size=3)


@given(st.sampled_from(sorted(set(EVENTS) - {"source.lag"})), st.data())
def test_no_line_is_fatal(name: str, data: st.DataObject) -> None:
    """Fields may be missing or null; the list is shown all the same."""
    body = dict.fromkeys(EVENTS[name])
    assert len(happenings([Event(ago(0), "r", 1, name, None, json.dumps(body))])) == 1
    assert len(happenings([Event(ago(0), "r", 1, name, None, json.dumps({}))])) == 1
    assert len(happenings([Event(ago(0), "r", 1, name, None, "torn")])) == 1


def test_the_parts_of_a_redump_are_one_line_a_table() -> None:
    """A thousand parts do not push what else happened off the list; they are not among the usual kinds."""
    parts = [event(n, "redump.chunk", 10 - n, id="c", table=f"d.{'ab'[n % 2]}", rows=600, ghosts=n) for n in range(4)]
    assert [(line.table, line.text, line.duration_s) for line in happenings(parts)] == [
        ("d.b", "Read again 2 parts: 1.2k rows, 4 ghosts", 2.0),
        ("d.a", "Read again 2 parts: 1.2k rows, 2 ghosts", 2.0),
    ]
    assert "redump.chunk" not in names(USUAL)


def test_what_operators_set_is_a_sentence() -> None:
    """Pauses and limits, or that there are none."""
    told = [
        event(1, "run.controls", throttle={"readers": 2}, snapshot=True, tables=["d.a", "d.b"]),
        event(2, "run.controls", throttle={}, snapshot=False, tables=[]),
    ]
    assert [line.text for line in happenings(told)] == [
        "Set: nothing is paused or limited but by the spec",
        "Set: no table is read; d.a, d.b not read; readers 2",
    ]
