"""The cards of the list of pipelines."""

from dataclasses import replace

from app.view.health import layers
from app.view.pipeline_cards import card_of, order
from engine.history.runs import Run
from engine.history.table_queries import Progress
from tests.unit.app.support import NOW, ago, epoch, growing, lag, read, runner, table


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
