"""Pipeline cards, history rows, commands, chunk details and the distribution factor."""

from dataclasses import replace

from app.view import chunk_details, factor
from app.view.commands import Sent, sentences
from app.view.health import layers
from app.view.past import past
from app.view.pipeline_cards import card_of, order
from engine.history.chunks import Chunk
from engine.history.log import Answer
from engine.history.runs import Run, RunTotals
from engine.history.tables import Plan, Progress
from tests.unit.app.support import NOW, ago, epoch, growing, lag, plan, read, runner, table


def card(
    state: str = "running",
    *,
    alive: bool = True,
    message: str = "",
    copied: Progress | None = None,
    lived_s: float = 60,
) -> dict[str, tuple[str, str]]:
    """The facts of a pipeline's card; by default half of its table is copied."""
    copied = copied or table(10, 5)
    who = runner(state, alive=alive, error={"message": message, "detail": "", "hint": ""} if message else None)
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
    assert card("lost", alive=False)["Lag"] == ("0.4 s", "gray")


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


def test_history_distinguishes_running_from_lost() -> None:
    """Only the newest run can be under way, and only with a live runner."""
    runs = [run("c", ended=False), run("b", ended=False), run("a", ended=True, code=4, error='{"message": "purged"}')]
    totals = {("p", "a"): RunTotals("p", "a", 1000, 3, 10.0, 50, 2, 1)}
    newest, lost, failed = past(runs, totals, {"p"}, NOW)
    assert (newest.outcome, newest.duration_s) == ("running, under way", 3600)
    assert (lost.outcome, lost.duration_s) == ("lost", 700)
    assert (failed.outcome, failed.reason) == ("failed", "purged")
    assert (failed.rows_s, newest.rows_s) == (100, None)
    (silent,) = past([run("d", ended=True, code=4)], {}, set(), NOW)
    assert (silent.outcome, silent.reason) == ("failed", "the source can no longer be followed")
    assert past(runs[:1], {}, set(), NOW)[0].reason == "the heartbeat stopped"


def test_a_command_is_shown_until_it_is_done() -> None:
    """Sent, accepted, done, gone; refused and unanswered are orange."""

    def shown(age: float, *events: str) -> list[tuple[str, str]]:
        found = [Answer(NOW, "1", name, "pause", "not running", 0.4) for name in events]
        return sentences([Sent("1", "pause", ago(age))], found, NOW)

    assert shown(1) == [("blue", "Pause sent; waiting for the runner")]
    assert shown(15) == [("orange", "Pause sent 15 s ago; the runner has not answered yet")]
    assert shown(3, "command.accepted") == [("blue", "Pause accepted; running for 3.0 s")]
    assert shown(3, "command.accepted", "command.done") == [("green", "Pause done in 0.4 s")]
    assert shown(30, "command.accepted", "command.done") == []
    assert shown(3, "command.refused") == [("orange", "Pause was refused: not running")]


def test_the_facts_of_a_waiting_chunk_are_unknown() -> None:
    """The chunk details show `—`, not 0."""
    chunk = Chunk("d.t", 3, "1", None, "waiting", *([None] * 25))
    values = {label: value for _, group in chunk_details.facts(chunk) for label, value in group}
    assert set(values.values()) == {"—"}


def test_a_factor_outside_the_bounds_has_its_own_marker() -> None:
    """Its symbol differs, not only its colour; a table without a factor is not drawn."""

    def factored(name: str, value: float | None) -> Plan:
        return replace(plan(10, name=name), distribution_factor=value)

    found = factor.figure([factored("a", 1.0), factored("b", 5000.0), factored("c", None)], 0.05, 1000)
    assert found["data"][0]["y"] == ["a", "b"]
    assert found["data"][0]["marker"]["symbol"] == ["circle", "x"]
