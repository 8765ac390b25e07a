"""What pausing or starting several pipelines would do to each of them."""

from collections.abc import Mapping
from dataclasses import dataclass

from app.common.view import words
from app.common.view.runner_view import Runner

_MEANING = {
    "pause": "Reading stops after the current chunks and binlog range. The lag grows until you resume, and the source "
    "must keep its binlog until then.",
    "start": "Each gets a runner on this machine, which continues from the committed position.",
    "resume": "Reading continues from the committed position.",
}


@dataclass(frozen=True)
class Act:
    """A command to some of the chosen pipelines."""

    verb: str
    """pause, start or resume."""
    names: tuple[str, ...]
    others: tuple[str, ...]
    """Those that stay as they are, with their states."""

    @property
    def button(self) -> str:
        """`Pause shop and billing`, `Start 5 pipelines`."""
        return f"{self.verb.capitalize()} {_listed(self.names)}"

    @property
    def sentences(self) -> list[str]:
        """What happens, to which, and which stay as they are."""
        lines = [f"{self.verb.capitalize()} {', '.join(self.names)}. {_MEANING[self.verb]}"]
        return [*lines, f"Unchanged: {', '.join(self.others)}."] if self.others else lines


def _listed(names: tuple[str, ...]) -> str:
    if len(names) > 3:
        return words.plural(len(names), "pipeline")
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def acts(runners: Mapping[str, Runner]) -> list[Act]:
    """What can be done to the chosen pipelines. runners: theirs, by name."""
    possible = []
    for verb in _MEANING:
        names = tuple(name for name, runner in runners.items() if can(verb, runner))
        others = tuple(f"{name} ({runner.style.label})" for name, runner in runners.items() if name not in names)
        if names:
            possible.append(Act(verb, names, others))
    return possible


def can(verb: str, runner: Runner) -> bool:
    """Whether a pipeline in this state can be paused, started or resumed."""
    if verb == "start":
        return not runner.alive and runner.state != "starting"
    return runner.alive and runner.state in (("running", "starting") if verb == "pause" else ("paused",))
