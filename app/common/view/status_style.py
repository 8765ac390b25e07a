"""The style of each state on all pages.

The colour shows who must act: red means you or the source's administrator, orange means that the runner retries.
"""

from dataclasses import dataclass
from typing import Literal

from engine.pipeline.state_words import FROZEN, SILENT_SPARK, STATES, STORE_AWAY, STORE_REFUSED

Colour = Literal["gray", "blue", "green", "orange", "red", "violet"]
"""Streamlit's names."""


@dataclass(frozen=True)
class Style:
    """How a state is shown."""

    label: str
    letter: str
    """The letter in a tile of the chunk map."""
    colour: Colour
    icon: str
    """A Material symbol."""
    meaning: str
    """The tooltip."""


CHUNK = {
    "waiting": Style("waiting", "W", "gray", ":material/schedule:", "planned, not yet given to a reader"),
    "reading": Style("reading", "R", "blue", ":material/download:", "given to a reader"),
    "failed": Style("retrying", "!", "orange", ":material/refresh:", "the last attempt failed; it will be retried"),
    "parked": Style("parked", "X", "red", ":material/block:", "it failed too often; resume the table to retry it"),
    "finished": Style("finished", "F", "violet", ":material/task_alt:", "read and backfilled, not yet committed"),
    "published": Style("published", "P", "green", ":material/done_all:", "committed; a restart does not read it again"),
}

PIPELINE = {
    "new": Style(STATES["new"], "N", "gray", ":material/radio_button_unchecked:", "it has never run"),
    "starting": Style(
        STATES["starting"], "S", "blue", ":material/hourglass_top:", "Spark and the connection are being set up"
    ),
    "running": Style(STATES["running"], "R", "green", ":material/play_circle:", "the runner is alive and works"),
    "away": Style(
        STATES["away"],
        "U",
        "orange",
        ":material/cloud_off:",
        "the source does not answer; the runner keeps trying",
    ),
    "refused": Style(
        STATES["refused"],
        "L",
        "red",
        ":material/lock:",
        "the source answers but refuses the login; the runner tries again",
    ),
    "privileges": Style(
        STATES["privileges"],
        "G",
        "red",
        ":material/lock:",
        "the source refuses a statement for lack of privileges; the runner tries again",
    ),
    "full": Style(
        STATES["full"],
        "D",
        "red",
        ":material/disc_full:",
        "the runner waits for room on a disk, then continues by itself",
    ),
    "read_only": Style(
        STATES["read_only"],
        "O",
        "red",
        ":material/lock:",
        "the runner waits until a file system can be written, then continues by itself",
    ),
    "forbidden": Style(
        STATES["forbidden"],
        "W",
        "red",
        ":material/lock:",
        "the runner waits until its user may write to a folder, then continues by itself",
    ),
    "store_refused": Style(
        STATES[STORE_REFUSED],
        "K",
        "red",
        ":material/key_off:",
        "the destination's store refuses the credentials; the runner tries again",
    ),
    "store_away": Style(
        STATES[STORE_AWAY],
        "B",
        "orange",
        ":material/cloud_off:",
        "the destination's store does not answer; the runner keeps trying",
    ),
    SILENT_SPARK: Style(
        STATES[SILENT_SPARK],
        "Q",
        "red",
        ":material/error:",
        "the runner is alive, but its Spark does not answer, so nothing is read",
    ),
    "table_stopped": Style(
        STATES["table_stopped"], "T", "red", ":material/error:", "the runner is alive, but not every table is streamed"
    ),
    "paused": Style(
        STATES["paused"], "P", "violet", ":material/pause_circle:", "the runner is alive and waits for resume"
    ),
    "stopping": Style(
        STATES["stopping"], "S", "blue", ":material/hourglass_bottom:", "the runner commits what it has and ends"
    ),
    "ended": Style(STATES["ended"], "E", "gray", ":material/stop_circle:", "the last run ended normally"),
    "failed": Style(STATES["failed"], "X", "red", ":material/error:", "the last run ended with an error"),
    "lost": Style(
        STATES["lost"], "L", "red", ":material/heart_broken:", "the heartbeat stopped without an end of the run"
    ),
    FROZEN: Style(
        STATES[FROZEN], "H", "red", ":material/ac_unit:", "the runner's process lives, but sends no heartbeats"
    ),
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
"""The same colours for figures, readable on the light and on the dark background."""


_AT_THE_SOURCE = frozenset(
    {
        "PrivilegesMissingError",
        "BinlogOffError",
        "GtidModeError",
        "ConnectionLimitError",
        "privileges",
        "privileges_missing",
        "binlog_filter",
        "source_settings",
        "read_blocked",
    }
)
"""The errors, causes of outages and kinds of alerts that only someone with the source's rights can end."""


def who_acts(colour: str, about: str = "") -> str:
    """Who acts on a state of this colour; empty if nobody must, or if it is not known.

    about: the class of the error, the cause of the outage or the kind of the alert.
    """
    you = "source's administrator" if about in _AT_THE_SOURCE else "you"
    return {"red": you, "orange": "runner retries"}.get(colour, "")


def badge(colour: str, text: str) -> str:
    """Markdown for a small coloured label. text: must be escaped."""
    return f":{colour}-badge[{text}]"
