"""The life of one row: each change of its change log as a difference, from the snapshot until now."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.view import words

_MOST = 60
"""Characters of a value that are shown."""


@dataclass(frozen=True)
class Step:
    """One change of the row."""

    title: str
    colour: str
    """A Streamlit colour name."""
    at: datetime | None
    """When the transaction was committed, by the source's clock; None if unknown."""
    place: str
    """The binlog position and the transaction's GTID, as far as known."""
    values: tuple[tuple[str, str | None, str | None], ...]
    """Columns with their values before and after, as text; None where there was no row."""


def steps(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], *, more: bool = False) -> list[Step] | None:
    """The steps, oldest first. rows: the answer of `engine.explore.queries.history_sql`, as dictionaries; columns: the source's.

    more: the answer lacks the newest changes and the mirror's row; then there are no steps (None), rather than a wrong end.

    An update has two entries, its before and after image. A row whose first entry is not an insert came with the snapshot. The last
    entry, if any, is the mirror's row.
    """
    if more:
        return None
    found: list[Step] = []
    before: dict[str, str] | None = None
    for number, row in enumerate(rows):
        kind, image = row["_tm_kind"], {column: _text(row[column]) for column in columns}
        if number == 0 and kind in ("-U", "-D"):
            found.append(Step("Copied by the snapshot", "blue", None, "", _difference(None, image)))
        if kind in ("-U", "mirror"):
            before = image
        if kind in _TITLES:
            title, colour = _TITLES[kind]
            title = f"{title} by a redump" if row.get("_tm_redump") else title
            after = None if kind == "-D" else image
            found.append(Step(title, colour, row.get("_tm_ts"), _place(row), _difference(before, after)))
            before = after
        elif kind == "mirror":
            found.append(Step("Now in the mirror", "green", None, "", _difference(None, image)))
    if rows and rows[-1]["_tm_kind"] != "mirror":
        found.append(Step("Not in the mirror now", "gray", None, "", ()))
    return found


_TITLES = {"+I": ("Inserted", "green"), "+U": ("Updated", "orange"), "-D": ("Deleted", "red")}


def _difference(
    before: Mapping[str, str] | None, after: Mapping[str, str] | None
) -> tuple[tuple[str, str | None, str | None], ...]:
    """The columns that differ; all of them if there is a row on one side only."""
    names = list(after if after is not None else before or ())
    pairs = ((name, before[name] if before else None, after[name] if after else None) for name in names)
    return tuple(pair for pair in pairs if pair[1] != pair[2])


def _place(row: Mapping[str, Any]) -> str:
    return " · ".join(str(row[name]) for name in ("_tm_position", "_tm_tx") if row.get(name))


def _text(value: Any) -> str:
    if value is None:
        return "NULL"
    text = f"0x{value.hex()}" if isinstance(value, bytes) else str(value)
    return text if len(text) <= _MOST else f"{text[:_MOST]}…"


def markdown(step: Step) -> str:
    """A step as Markdown: its title, time and place, and one line per value."""
    facts = " · ".join(filter(None, (words.date_time(step.at) if step.at else "", step.place)))
    lines = [f":{step.colour}[**{step.title}**] :small[:gray[{words.escape(facts)}]]"]
    for column, before, after in step.values:
        old = f"~~{words.escape(before)}~~" if before is not None else ""
        new = f"**{words.escape(after)}**" if after is not None else ""
        lines.append(f"- {words.escape(column)}: {' → '.join(filter(None, (old, new)))}")
    return "\n".join(lines)
