"""The cards of the list of pipelines."""

from dataclasses import replace

import pytest

from app.common.view.alert_list import Firing, firing_alerts, standing_alerts
from app.common.view.health import layers
from app.common.view.runner_view import Away, Runner
from app.common.view.write_words import Unwritten
from app.pipelines.view.pipeline_cards import by_source, card_of, matches, order, outages
from engine.alerting.acknowledgements import Acknowledgement
from engine.base.errors import ErrorRecord
from engine.base.write_causes import WriteCause
from engine.history.runs import Run
from engine.history.table_queries import TableProgress
from engine.pipeline.active_alert import Alert
from tests.unit.app.support import AT, NOW, ago, epoch, frozen_runner, growing, lag, read, runner, table


def card(
    state: str = "running",
    *,
    alive: bool = True,
    message: str = "",
    copied: TableProgress | None = None,
    lived_s: float = 60,
) -> dict[str, tuple[str, str]]:
    """The facts of a pipeline's card; by default half of its table is copied."""
    copied = copied or table(10, 5)
    who = runner(state, alive=alive, error=ErrorRecord(message=message) if message else None)
    who = replace(who, started=ago(lived_s))
    reading = lag(0.4)
    shown = layers(who, reading, [], NOW)
    one = card_of("p", who, shown, reading, [copied], [read(10, 0)], [epoch(10, 500)], NOW)
    return {fact.label: (fact.value, fact.colour) for fact in one.facts} | {"trouble": (one.trouble, "")}


def test_a_card_shows_rates_only_of_a_live_runner() -> None:
    """Without activity there is no rate, rather than a rate of 0."""
    assert card()["Reading"] == ("100 rows/s", "")
    assert card()["Changes"] == ("8.3 changes/s", "")  # 500 in a minute
    assert card(lived_s=20)["Changes"] == ("25 changes/s", "")
    assert card(lived_s=5)["Changes"] == ("0 changes/s", ""), "the run before committed them"
    assert card("paused")["Reading"] == ("—", "")
    assert card("lost", alive=False)["Copied"] == ("50.0%", "gray")
    assert card("lost", alive=False)["Lag"] == ("up to 1.0 s", "gray")


def test_a_lost_position_has_no_retention_left() -> None:
    """Whatever was measured before the source purged it."""
    who = runner("failed", alive=False, error=ErrorRecord("SourceLostError", "The binlog was purged."))
    for reading in (None, lag(0.4, runway_s=29 * 86_400.0)):
        one = card_of("p", who, layers(who, reading, [], NOW), reading, [], [], [], NOW)
        assert next((f.value, f.colour) for f in one.facts if f.label == "Retention left") == ("none", "red")


def test_a_small_lag_is_not_red_beside_a_stopped_table() -> None:
    """The table is what is red."""
    stops = table(10, 10)._replace(state="stopped")
    who, reading = runner("running"), lag(0.0)
    one = card_of("p", who, layers(who, reading, [], NOW, ["d.t"]), reading, [stops], [], [], NOW)
    assert next(fact.colour for fact in one.facts if fact.label == "Lag") == ""


def test_a_table_with_unplanned_chunks_is_not_copied() -> None:
    """All known chunks are read, but more follow."""
    assert card(copied=growing(10, 10, 100))["Copied"] == ("10.0%", "")
    assert card(copied=growing(10, 10, 100))["Reading"] == ("100 rows/s", "")
    assert card(copied=growing(10, 10, None))["Copied"] == ("—", "")
    assert card(copied=table(10, 10))["Reading"] == ("—", "")


def test_problems_are_shown_and_sorted_first() -> None:
    """With the reason."""
    assert card("failed", alive=False, message="purged")["trouble"][0] == "purged"
    assert "heartbeat stopped" in card("lost", alive=False)["trouble"][0]
    assert card()["trouble"][0] == ""
    states = ("ended", "running", "failed", "paused", "lost")
    cards = [card_of(s, runner(s), layers(runner(s), None, [], NOW), None, [], [], [], NOW) for s in states]
    assert [one.name for one in sorted(cards, key=order)] == ["failed", "lost", "running", "paused", "ended"]
    assert [one.who for one in cards] == ["", "", "", "", "you"]
    failed = runner("failed", alive=False, error=ErrorRecord(message="purged"))
    assert card_of("f", failed, layers(failed, None, [], NOW), None, [], [], [], NOW).who == "you"


def test_a_source_that_is_away_is_a_state_of_its_own() -> None:
    """Behind failures and before everything that works; no number is shown as current."""
    who = replace(runner(), away=Away(ago(48), 5, ago(-30), "Connecting failed.", None))
    reading = lag(0.4, age=50)
    one = card_of(
        "away", who, layers(who, reading, [], NOW), reading, [table(10, 5)], [read(10, 0)], [epoch(10, 5)], NOW
    )
    facts = {fact.label: (fact.value, fact.colour) for fact in one.facts}
    assert (facts["Reading"][0], facts["Changes"][0]) == ("—", "—")
    assert facts["Lag"] == ("up to 50 s", "orange")
    assert one.trouble.startswith("Source unreachable for 48 s · attempt 5 · next try in 30 s")
    assert (one.trouble_colour, one.phase, one.who) == ("orange", "", "runner retries")
    others = [
        card_of(s, runner(s), layers(runner(s), None, [], NOW), None, [], [], [], NOW) for s in ("lost", "running")
    ]
    assert [card.name for card in sorted([one, *others], key=order)] == ["lost", "away", "running"]


def run(name: str, *, ended: bool, code: int | None = None, error: str | None = None) -> Run:
    """A run of an hour ago."""
    end = ago(3000) if ended else None
    return Run(
        "p",
        name,
        ago(3600),
        ago(2900),
        None,
        None,
        None,
        None,
        end,
        "stopped",
        code,
        error,
        "running",
        None,
        None,
        None,
    )


def test_pipelines_are_found_by_name_source_and_state() -> None:
    """Every word must match, and one of the states."""
    one = card_of("shop", runner("failed"), layers(runner("failed"), None, [], NOW), None, [], [], [], NOW, "db-1:3306")
    assert all(matches(one, text) for text in ("", "SHO", "db-1", "3306 failed", "shop failed"))
    assert not any(matches(one, text) for text in ("shops", "db-2", "shop running"))
    assert matches(one, "", ["failed", "running"])
    assert not matches(one, "", ["running"])
    assert matches(replace(one, tags=("payments", "prod")), "prod shop")


def test_pipelines_are_grouped_by_source() -> None:
    """In the order of their most urgent one."""
    who = runner("running")
    cards = [
        card_of(name, who, layers(who, None, [], NOW), None, [], [], [], NOW, source)
        for name, source in (("a", "db-2:1"), ("b", "db-1:1"), ("c", "db-2:1"), ("d", ""))
    ]
    groups = {source: [one.name for one in found] for source, found in by_source(cards).items()}
    assert groups == {"db-2:1": ["a", "c"], "db-1:1": ["b"], "source unknown": ["d"]}
    assert list(groups) == ["db-2:1", "db-1:1", "source unknown"]


def test_rows_that_differ_are_trouble() -> None:
    """Unless something else is more urgent."""
    for state, trouble in (
        ("running", "3 rows differ from the source; see the page Verify"),
        ("lost", "The heartbeat"),
    ):
        who = runner(state, alive=state == "running")
        one = card_of("p", who, layers(who, None, [], NOW), None, [], [], [], NOW, differences=3)
        assert one.trouble.startswith(trouble)


def test_an_outage_names_all_pipelines_of_its_source() -> None:
    """Of one pipeline, its card says it already."""
    away = replace(runner(), away=Away(ago(20), 3, ago(-9), "Can't connect", None))
    cards = [
        card_of(name, who, layers(who, None, [], NOW), None, [], [], [], NOW, source)
        for name, who, source in (
            ("b", away, "db:1"), ("a", away, "db:1"), ("c", away, "db:2"), ("d", runner(), "db:1"), ("e", away, ""),
        )
    ]  # fmt: skip
    assert outages(cards) == ["db:1 is unreachable: affects 2 pipelines: a, b"]


def test_no_card_is_green_beside_a_problem() -> None:
    """A stopped table and a full disk have states of their own, before everything that works."""
    stops = table(10, 10)._replace(state="stopped")
    full = replace(runner("paused"), unwritten=Unwritten("disk", "disk full (log: no space)", "", None, 1))
    cards = [
        card_of(name, who, layers(who, lag(0.4), [], NOW), lag(0.4), tables, [], [], NOW)
        for name, who, tables in (("a", runner(), []), ("b", runner(), [stops]), ("c", full, [stops]))
    ]
    assert [one.name for one in sorted(cards, key=order)] == ["c", "b", "a"]
    assert [one.style.colour for one in cards] == ["green", "red", "red"]
    assert [one.style.label for one in cards] == ["running", "table stopped", "disk full"]
    assert "disk full (log: no space)" in cards[2].trouble
    assert matches(cards[1], "table stopped")
    assert matches(cards[1], "", ["table stopped"])


def test_a_refused_login_is_no_unreachable_source() -> None:
    """An operator must act; the network has nothing to do with it."""
    refused = Away(ago(48), 5, ago(-30), "Access denied", None, "login", "Check source.user and the password.")
    who = replace(runner(), away=refused)
    one = card_of("a", who, layers(who, lag(0.4), [], NOW), lag(0.4), [], [], [], NOW, "db:1")
    assert (one.style.label, one.style.colour, one.trouble_colour, one.who) == ("login refused", "red", "red", "you")
    assert one.trouble == "Login refused for 48 s · attempt 5 · next try in 30 s · no time limit: Access denied"
    assert outages([one, one]) == []
    denied = replace(runner(), away=replace(refused, cause="privileges"))
    other = card_of("a", denied, layers(denied, lag(0.4), [], NOW), lag(0.4), [], [], [], NOW, "db:1")
    assert (other.style.label, other.trouble_colour) == ("privileges missing", "red")
    assert other.trouble.startswith("Privileges missing for 48 s")


def test_every_problem_counts_but_a_pause() -> None:
    """A stopped table of a paused pipeline is one too.

    Without a runner it is named, and nothing is said to continue.
    """
    stops = [table(10, 10)._replace(state="stopped")]
    waits = replace(runner("paused"), reason="ada@db-1")
    cards = [
        card_of("a", who, layers(who, lag(0.4), [], NOW), lag(0.4), tables, [], [], NOW)
        for who, tables in ((runner(), []), (waits, []), (waits, stops), (runner("ended", alive=False), stops))
    ]
    assert [one.problem for one in cards] == [False, False, True, True]
    assert [one.trouble_colour for one in cards[1:]] == ["violet", "red", "red"]
    assert cards[3].trouble == "Tables that have stopped: d.t"


def test_a_pause_says_who_and_why() -> None:
    """Nobody shall end another person's pause unknowingly."""
    who = replace(runner("paused"), reason="ada@db-1: nightly backup")
    one = card_of("a", who, layers(who, None, [], NOW), None, [], [], [], NOW)
    assert (one.trouble, one.trouble_colour) == ("Paused: ada@db-1: nightly backup", "violet")
    assert layers(who, None, [], NOW)[0].details[0] == "ada@db-1: nightly backup"


ADA = Acknowledgement("ada", AT, "on it", "mirror_unreadable", "d.t", AT, None)


def alerts(of: Runner, *raised: tuple[str, str | None], seen: Acknowledgement | None = None) -> list[Firing]:
    """The alerts of a pipeline, by kind and table."""
    standing = [Alert(kind, table, message=f"{kind} of {table}.", since=AT) for kind, table in raised]
    return firing_alerts("p", of, standing_alerts(of, standing), lambda _: seen)


def test_a_card_shows_every_alert_that_live_shows() -> None:
    """They count as a problem until somebody has acknowledged them; what the card says already is said once."""
    who, stops = runner(), table(10, 10)._replace(state="stopped")
    shown = layers(who, lag(0.4), [], NOW)
    raised = alerts(who, ("source_changed", None), ("mirror_unreadable", "d.t"), ("table_stopped", "d.t"))
    one = card_of("p", who, shown, lag(0.4), [table(10, 10)], [], [], NOW, alerts=raised[:2])
    assert [(colour, line.split(" since")[0]) for colour, line in one.lines] == [
        ("red", "Mirror cannot be read"),
        ("orange", "Source changed"),
    ]
    assert (one.problem, one.who) == (True, "you")
    quiet = card_of("a", who, shown, lag(0.4), [], [], [], NOW)
    assert [card.name for card in sorted((quiet, one), key=order)] == ["p", "a"], "running, but it needs attention"
    others = [stops, table(10, 10)._replace(table="d.z", state="streaming")]
    stopped = card_of("p", who, shown, lag(0.4), others, [], [], NOW, alerts=raised[2:])
    assert stopped.lines == [("red", "Stopped, while the others continue: d.t")]
    gone = [stops, table(10, 10)._replace(table="d.z", state="removed")]
    stopped = card_of("p", who, shown, lag(0.4), gone, [], [], NOW, alerts=raised[2:])
    assert stopped.lines == [("red", "Stopped, and no other table is left: d.t")]
    why = [stops._replace(table=name, reason=f"{name} was\ndropped.") for name in ("d.s", "d.t", "d.u")]
    stopped = card_of("p", who, shown, lag(0.4), why, [], [], NOW)
    assert stopped.lines[1:] == [("red", "d.s: d.s was dropped. And 2 more tables.")]
    alone = card_of("p", who, shown, lag(0.4), why[:1], [], [], NOW)
    assert alone.lines[1:] == [("red", "d.s: d.s was dropped.")]
    failed = runner("failed", alive=False, error=ErrorRecord(message="The password is wrong."))
    away = card_of("p", failed, shown, lag(0.4), why, [], [], NOW)
    assert len(away.lines) == 1, "another problem is more urgent"
    seen = card_of(
        "p", who, shown, lag(0.4), [], [], [], NOW, alerts=alerts(who, ("mirror_unreadable", "d.t"), seen=ADA)
    )
    assert ([colour for colour, _ in seen.lines], seen.problem, seen.who) == (["gray"], False, "")


def test_a_card_says_rows_that_differ_once() -> None:
    """The alert has the table; without it, the card has the number."""
    who = runner()
    shown, raised = layers(who, lag(0.4), [], NOW), alerts(who, ("diverged", "d.t"))
    (line,) = card_of("p", who, shown, lag(0.4), [], [], [], NOW, differences=3, alerts=raised).lines
    assert line[1].startswith("Rows differ since")


def test_a_card_counts_the_alerts_that_it_has_no_room_for() -> None:
    """A pipeline of many tables may have one for each."""
    who = runner()
    raised = alerts(who, *(("mirror_unreadable", f"d.t{n}") for n in range(9)))
    one = card_of("p", who, layers(who, lag(0.4), [], NOW), lag(0.4), [], [], [], NOW, alerts=raised)
    assert one.lines[-1] == ("gray", "5 more alerts; see the page Alerts")
    assert len(one.lines) == 5


def test_a_page_is_drawn_again_when_a_launched_runner_lives() -> None:
    """Both are starting; only the first waits for a heartbeat."""
    assert runner("starting", alive=False).page_state != runner("starting").page_state
    assert runner().page_state == replace(runner(), heartbeat_age_s=3.0).page_state


@pytest.mark.parametrize(
    ("cause", "colour", "who"), [("store_away", "orange", "runner retries"), ("store_refused", "red", "you")]
)
def test_a_card_says_who_acts_on_a_store(cause: WriteCause, colour: str, who: str) -> None:
    """Nobody, while it is away."""
    waits = replace(runner("paused"), unwritten=Unwritten(cause, "what it says (log)", "", None, 1))
    card = card_of("a", waits, layers(waits, lag(0.4), [], NOW), lag(0.4), [], [], [], NOW)
    assert (card.style.colour, card.trouble_colour, card.who) == (colour, colour, who)


def test_a_frozen_runner_is_a_problem_that_comes_first() -> None:
    """With its process and what to do; its numbers are gray, and it has no rates."""
    hangs, reading = frozen_runner(), lag(0.4)
    shown = layers(hangs, reading, [], NOW)
    raised = alerts(hangs, ("runner_frozen", None))
    one = card_of("p", hangs, shown, reading, [table(10, 10)], [], [epoch(10, 500)], NOW, alerts=raised)
    assert (one.shown_state, one.style.colour, one.phase, one.problem, one.who) == ("frozen", "red", "", True, "you")
    ((colour, text),) = one.lines
    assert (colour, text.startswith("Process 7 on host is stopped by a signal")) == ("red", True)
    assert "kill -CONT 7" in text
    values = {fact.label: (fact.value, fact.colour) for fact in one.facts}
    assert values["Heartbeat"] == ("1 min 31 s ago", "gray")
    assert values["Changes"] == ("—", "gray")
    works = card_of("a", runner(), layers(runner(), reading, [], NOW), reading, [], [], [], NOW)
    assert min(works, one, key=order) is one
