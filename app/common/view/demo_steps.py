"""The demo's state, from what its process has printed: a line a step, and at last `Ready`."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.common.view import words

NONE, STARTING, READY, ENDING, FAILED = "none", "starting", "ready", "ending", "failed"
_LAST = "Ready"
SUMMARY = (
    "The demo is running, with a private server on this machine. "
    "When you end it, or this console, its server, its pipeline and the copied tables are deleted."
)
REMEDY = (
    "Run make setup in the folder of the sources. It installs the servers, Java and the packages that the demo needs. "
    "Then load the demo again."
)


@dataclass(frozen=True)
class Demo:
    """A demo."""

    phase: str
    steps: tuple[str, ...] = ()
    """The steps that it has begun."""
    error: str = ""
    """Why it failed."""


def state(log: str, *, running: bool, ending: bool, failed: bool) -> Demo:
    """The state of a demo.

    log: the output of its process. running: whether there is one. ending: whether somebody ends it. failed: whether it
    ended with an error.
    """
    steps = tuple(line for line in log.splitlines() if line.strip())
    if running:
        return Demo(ENDING if ending else READY if _LAST in steps else STARTING, steps)
    return Demo(FAILED, steps, steps[-1] if steps else "It ended without an error message.") if failed else Demo(NONE)


def markdown(steps: Sequence[str]) -> str:
    """The steps, one a line: the last one is under way."""
    lines = [f":green[:material/check:] {words.escape(step)}" for step in steps[:-1]]
    return "  \n".join([*lines, *(f":blue[:material/hourglass_top:] {words.escape(step)} …" for step in steps[-1:])])
