"""The event feed."""

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from app.live.view.event_feed import KINDS, USUAL, command_of, enders, feed_lines, line_of, names, search
from engine.history.event_queries import JournalLine
from engine.journal.events import EVENTS, fields_of
from tests.unit.app.support import ago


def event(seq: int, name: str, age: float = 0.0, **fields: object) -> JournalLine:
    """A journal line."""
    table = fields.get("table")
    return JournalLine(ago(age), "r", seq, name, str(table) if table else None, json.dumps(fields))


def test_every_event_but_regular_measurements_has_a_kind() -> None:
    """A new event of the protocol must belong to a kind."""
    assert set(names(KINDS)) == set(EVENTS) - {"source.lag", "disk.space", "store.requests"}


def test_a_command_is_one_line_with_its_duration() -> None:
    """From the time it is accepted until it is done."""
    command = {"id": "1", "verb": "pause", "actor": "dba", "reason": "backup"}
    done = event(2, "command.done", id="1", verb="pause", duration_s=0.4)
    (line,) = feed_lines([done, event(1, "command.accepted", 1, **command)])
    assert (line.text, line.duration_s) == ("Pause by dba: backup – done", 0.4)
    (refused,) = feed_lines([event(1, "command.refused", 0.0, **command, message="not running")])
    assert (refused.text, refused.tone) == ("Pause by dba: backup – refused (not running)", "gray")


def test_a_command_says_what_it_is_about() -> None:
    """Also the event of its end, opened on its own."""
    accepted = event(
        1, "command.accepted", 2, id="1", verb="redump", actor="ada", reason="totals", what="chunk 3 of d.t"
    )
    done = event(2, "command.done", 1, id="1", verb="redump", duration_s=0.5)
    for opened in (accepted, done):
        assert command_of(opened) == "1"
        assert line_of(opened, [accepted, done]).text == "Redump chunk 3 of d.t by ada: totals – done"
    assert command_of(event(1, "error", id="1")) is None


def test_a_search_finds_what_is_shown_and_what_the_journal_has() -> None:
    """A sentence has words that the data lack, and the data have facts that no sentence shows.

    A group is found as a whole.
    """
    pause = event(1, "command.accepted", 9, id="1", verb="pause", actor="dba")
    done = event(2, "command.done", 8, id="1", verb="pause", duration_s=0.4)
    failed = event(3, "error", 7, table="d.t", message="gone", detail="no route", retry_in_s=4)
    rows = event(4, "chunk.finished", 6, table="d.u", chunk=3, rows=1000, group="g")
    newest = [rows, failed, done, pause]

    def texts(text: str, *older: JournalLine) -> list[str]:
        return [line.text for line in search(newest, older, text)]

    assert texts("BY dba – done") == texts("duration_s") == ["Pause by dba – done"]
    assert texts("runner retries") == texts("no route") == ["gone – next in 4.0 s"]
    assert texts("1k rows") == texts("d.u") == ["Chunk 3 read: 1k rows"]
    assert texts("nothing has this") == []
    assert search(newest, [], "") == feed_lines(newest)
    old = event(1, "run.state", 99, state="paused", reason="by eve")
    assert texts("eve", replace(old, run="before"), pause) == ["Pause by dba – done", "Run is paused – by eve"]


def test_a_group_of_chunks_is_one_line() -> None:
    """The chunks that one Spark task reads."""
    lines = [
        event(1, "chunk.assigned", 9, table="d.t", chunks=[3, 4, 5, 9], group="g"),
        *(event(n, "chunk.finished", 9 - n, table="d.t", chunk=n, rows=1000, group="g") for n in (3, 4, 5)),
    ]
    (line,) = feed_lines(lines)
    assert line.text == "Chunks 3–5, 9 read: 3k rows, 1 chunk to go"
    assert line.duration_s == 5


def test_the_splitting_of_a_table_is_one_line() -> None:
    """It is thousands of journal lines; splits of oversized chunks are counted, and the end is shown."""
    cuts = [event(n, "chunk.planned", 60 - n, table="d.t", chunks=[[n, "1", "2"]], complete=False) for n in range(50)]
    (line,) = feed_lines(cuts)
    assert (line.text, line.kind, line.table, line.duration_s) == ("Planned chunks 0–49", "Chunks", "d.t", 49)
    split = event(50, "chunk.planned", 5, table="d.t", chunks=[[7, "1", "1a"], [50, "1a", "2"]], complete=False)
    last = event(51, "chunk.planned", 4, table="d.t", chunks=[], complete=True)
    other = event(52, "chunk.planned", 4, table="d.u", chunks=[[0, None, None]], complete=True)
    one, two = sorted(feed_lines([*cuts, split, last, other]), key=lambda line: line.table)
    assert one.text == "Planned chunks 0–50; split 1 chunk larger than planned; all chunks are planned"
    assert (two.text, two.duration_s) == ("Planned chunk 0; all chunks are planned", None)
    assert "chunk.planned" not in names(USUAL)


def test_a_plan_shows_how_many_chunks_there_will_be() -> None:
    """The listed chunks, or an estimate."""

    def text(**fields: object) -> str:
        (line,) = feed_lines([event(1, "table.planned", 0.0, table="d.t", reason="because", **fields)])
        return line.text

    assert text(chunks=[[None, "5"], ["5", None]], estimated_chunks=9) == "Planned 2 chunks: because"
    (one,) = feed_lines(
        [event(1, "table.planned", table="d.t", reason="one chunk: it is empty", chunks=[[None, None]])]
    )
    assert one.text == "Planned 1 chunk: it is empty"
    assert text(chunks=[], estimated_chunks=400) == "Planned about 400 chunks: because"
    assert text(chunks=[], estimated_chunks=None) == "Planned chunks while the table is read: because"


def test_a_failure_that_was_retried_needs_no_one() -> None:
    """Past failures of a night do not look like a current one."""
    failed = event(1, "chunk.failed", table="d.t", chunks=[7], message="lost", attempt=3, retry_in_s=12)
    parked = event(2, "chunk.parked", table="d.t", chunk=8, message="bad – row", attempts=8, hint="look")
    away = event(3, "error", message="away", attempt=1, retry_in_s=4)
    found = {
        (one.text, one.tone) for one in feed_lines([replace(one, resolved=True) for one in (failed, parked, away)])
    }
    assert found == {
        ("Chunk 7: lost – read since, or planned again", "gray"),
        ("away – retried since", "gray"),
        ("Chunk 8 was parked after 8 attempts: bad – row – read since, or planned again", "gray"),
    }


def test_the_colour_shows_who_must_act() -> None:
    """Orange while the runner retries, red if an operator must act."""
    retried = event(1, "chunk.failed", table="d.t", chunks=[7], message="lost", attempt=3, retry_in_s=12)
    final = event(2, "error", message="purged", detail="gone", hint="copy again", retry_in_s=None)
    ended = event(3, "run.ended", outcome="failed", exit_code=4)
    found = {line.text: line.tone for line in feed_lines([retried, final, ended])}
    assert found == {
        "Chunk 7: lost – attempt 3, next in 12 s": "orange",
        "purged. gone": "red",
        "Run ended: failed, the source can no longer be streamed": "red",
    }
    stopped = event(4, "run.ended", outcome="stopped", exit_code=1, error={"message": "1 of 3 tables stopped: d.t."})
    (line,) = feed_lines([stopped])
    assert (line.text, line.tone) == ("Run ended: stopped: 1 of 3 tables stopped: d.t.", "gray")


def test_the_advice_is_apart_from_the_text() -> None:
    """The text fits its column; who opens the event reads both. A failure that is retried needs no advice."""
    final = event(
        1, "error", message="purged", detail="gone", hint="Resnapshot: tidemark redump SPEC --all.", retry_in_s=None
    )
    retried = event(2, "error", message="away", hint="wait", attempt=1, retry_in_s=4)
    found = {line.text: line for line in feed_lines([final, retried])}
    assert found["purged. gone"].advice == "Resnapshot: redump everything on the page Redump."
    assert found["purged. gone"].whole == "purged. gone. Resnapshot: redump everything on the page Redump."
    assert [line.advice for line in found.values() if line.tone == "orange"] == [""]


def test_an_alert_is_red_until_it_is_cleared() -> None:
    """The advice is apart; repetitions are counted."""
    alert = {"kind": "runway", "table": None, "message": "It purges in 1.0 h.", "hint": "Keep it longer."}
    raised = event(1, "alert.raised", 9, **alert, repeat=0)
    again = event(2, "alert.raised", 8, **alert, repeat=2)
    cleared = event(3, "alert.cleared", 7, **{**alert, "message": "It purges in 9.0 h."}, repeat=2)
    assert {line.who for line in feed_lines([raised, again])} == {"you"}
    other = event(4, "alert.raised", 6, **{**alert, "table": "d.t"})
    assert {line.who for line in feed_lines([other, cleared])} == {"you", ""}
    assert [(line.text, line.tone, line.kind) for line in reversed(feed_lines([raised, again, cleared]))] == [
        ("Alert: It purges in 1.0 h. – cleared", "gray", "Alerts"),
        ("Alert: It purges in 1.0 h. (repeated 2 times) – cleared", "gray", "Alerts"),
        ("Alert cleared: It purges in 9.0 h.", "gray", "Alerts"),
    ]


def test_nobody_acts_on_what_is_over() -> None:
    """Each event that somebody must act on has a later one that ends it."""
    cases = [
        (event(1, "source.away", message="gone"), event(9, "source.back"), "runner retries"),
        (event(1, "table.state", table="d.t", state="stopped"), event(9, "table.state", table="d.t"), "you"),
        (event(1, "error", table="d.t", message="bad"), event(9, "table.state", table="d.t"), "you"),
        (event(1, "table.verified", table="d.t", differences=3), event(9, "table.verified", table="d.t"), "you"),
        (event(1, "error", message="purged"), event(9, "run.started"), "you"),
        (event(1, "run.ended", exit_code=4), event(9, "run.started"), "you"),
    ]
    for one, end, who in cases:
        assert [line.who for line in feed_lines([one])] == [who]
        assert [line.who for line in feed_lines([one, replace(end, ts=ago(-1))])] == ["", ""], one
        assert end.event in enders(one)
        opened = line_of(one, [one, replace(end, ts=ago(-1))])
        assert (opened.seq, opened.who, opened.advice) == (one.seq, "", "")
        if one.table:
            elsewhere = replace(end, ts=ago(-1), table="d.other", body=json.dumps({"table": "d.other"}))
            assert feed_lines([one, elsewhere])[-1].who == who
    of_a_table = event(1, "error", 9, table="d.t", message="bad", hint="Look.")
    assert [line.who for line in feed_lines([of_a_table, event(9, "run.started")])] == ["", ""], "by the next run too"
    (refused,) = feed_lines([event(1, "command.refused", id="1", verb="pause", message="not running")])
    assert refused.who == "", "the runner does not retry it"


def test_who_acts_may_be_the_administrator_of_the_source_or_nobody() -> None:
    """Grants and the binlog are the source's; an error that is not retried and has no remedy is over."""
    administrator = "source's administrator"
    for one, who in (
        (event(1, "error", error="PrivilegesMissingError", message="denied", hint="GRANT."), administrator),
        (event(1, "source.away", refused=True, cause="privileges", message="denied"), administrator),
        (event(1, "source.away", refused=True, cause="login", message="denied"), "you"),
        (event(1, "alert.raised", kind="source_settings", message="MIXED"), administrator),
        (event(1, "run.ended", exit_code=4, error={"error": "BinlogOffError", "message": "off"}), administrator),
        (event(1, "run.ended", exit_code=4, error="off"), "you"),
        (event(1, "error", error="PrivilegesMissingError", message="denied", retry_in_s=2.0), "runner retries"),
        (event(1, "error", error="TornCommit", message="d.t: torn", hint="", table="d.t"), ""),
    ):
        (line,) = feed_lines([one])
        assert (line.who, line.table) == (who, one.table or ""), one


def test_a_refused_login_is_told_from_an_outage() -> None:
    """Also in the journal of a version that wrote no cause."""
    (old,) = feed_lines([event(1, "source.away", message="Denied.", refused=True, attempt=1, retry_in_s=4)])
    assert (old.text, old.tone) == ("The source refuses the login – attempt 1, next in 4.0 s: Denied.", "red")
    (away,) = feed_lines([event(1, "source.away", message="Gone.", cause="unreachable", attempt=1, retry_in_s=4)])
    assert (away.text, away.tone) == ("The source is unreachable – attempt 1, next in 4.0 s: Gone.", "orange")


ANYTHING = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.lists(st.integers(), max_size=3)


@given(st.sampled_from(sorted(set(EVENTS) - {"source.lag"})), st.data())
def test_no_line_breaks_the_feed(name: str, data: st.DataObject) -> None:
    """Fields may be missing or null."""
    body = dict.fromkeys(fields_of(name))
    assert len(feed_lines([JournalLine(ago(0), "r", 1, name, None, json.dumps(body))])) == 1
    assert len(feed_lines([JournalLine(ago(0), "r", 1, name, None, json.dumps({}))])) == 1
    assert len(feed_lines([JournalLine(ago(0), "r", 1, name, None, "torn")])) == 1


def test_the_parts_of_a_redump_are_one_line_per_table() -> None:
    """A thousand parts do not push other events off the list; they are not among the usual kinds."""
    parts = [event(n, "redump.chunk", 10 - n, id="c", table=f"d.{'ab'[n % 2]}", rows=600, ghosts=n) for n in range(4)]
    assert [(line.table, line.text, line.duration_s) for line in feed_lines(parts)] == [
        ("d.b", "Redumped 2 parts: 1.2k rows, 4 ghosts", 2.0),
        ("d.a", "Redumped 2 parts: 1.2k rows, 2 ghosts", 2.0),
    ]
    assert "redump.chunk" not in names(USUAL)


def test_pauses_and_limits_are_a_sentence() -> None:
    """Also if there are none."""
    lines = [
        event(1, "run.controls", throttle={"readers": 2}, snapshot=True, tables=["d.a", "d.b"]),
        event(2, "run.controls", throttle={}, snapshot=False, tables=[]),
    ]
    assert [line.text for line in feed_lines(lines)] == [
        "Set: no pauses or limits beyond the spec",
        "Set: the snapshot is paused; paused tables: d.a, d.b; readers 2",
    ]
