"""One colour and one letter for each state, everywhere. Colour says who must act: red is you, amber: we retry."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Look:
    """How a state looks. `colour`: a Streamlit colour name. `icon`: a Material symbol."""

    label: str
    letter: str
    colour: str
    icon: str
    meaning: str


CHUNK = {
    "waiting": Look("waiting", "W", "gray", ":material/schedule:", "planned, not yet given to a reader"),
    "reading": Look("reading", "R", "blue", ":material/download:", "given to a reader"),
    "failed": Look("retrying", "!", "orange", ":material/refresh:", "the last attempt failed; it is tried again"),
    "parked": Look("parked", "X", "red", ":material/block:", "it failed too often; resume the table to try it again"),
    "finished": Look("finished", "F", "violet", ":material/task_alt:", "read and exact, not yet committed"),
    "published": Look("published", "P", "green", ":material/done_all:", "committed; a restart will not read it again"),
}

PIPELINE = {
    "new": Look("not started", "N", "gray", ":material/radio_button_unchecked:", "it has never run"),
    "starting": Look("starting", "S", "blue", ":material/hourglass_top:", "Spark and the connection are being set up"),
    "running": Look("running", "R", "green", ":material/play_circle:", "the runner is alive and works"),
    "paused": Look("paused", "P", "violet", ":material/pause_circle:", "the runner is alive and waits for a resume"),
    "stopping": Look("stopping", "S", "blue", ":material/hourglass_bottom:", "the runner finishes what it holds"),
    "ended": Look("stopped", "E", "gray", ":material/stop_circle:", "the last run ended as it should"),
    "failed": Look("failed", "X", "red", ":material/error:", "the last run ended with an error"),
    "lost": Look("runner lost", "L", "red", ":material/heart_broken:", "the heartbeat stopped without a farewell"),
}

HEX = {
    "gray": "#8796a3",
    "blue": "#2f7fc4",
    "green": "#2a9d6f",
    "orange": "#d98a1f",
    "red": "#d1495b",
    "violet": "#7c6bd6",
    "primary": "#1583a5",
}
"""The same colours for figures; each is readable on the light and on the dark background."""


def badge(colour: str, text: str) -> str:
    """Markdown of a small coloured label. `text` must be escaped."""
    return f":{colour}-badge[{text}]"
