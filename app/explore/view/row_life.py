"""The life of one row: each change of its change log as a difference, from the snapshot until now."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.common.view import words
from engine.decode.schema import TM_KIND, TM_POSITION, TM_REDUMP, TM_TS, TM_TX
from engine.history.chunk_queries import RowRead
from engine.history.redumps import Redumped

_MOST = 60
"""Characters of a value that are shown."""


@dataclass(frozen=True)
class RowChange:
    """One change of the row."""

    title: str
    colour: str
    """A Streamlit colour name."""
    at: datetime | None
    """When the transaction was committed, by the source's clock; None if unknown."""
    place: str
    """The binlog position and the transaction's GTID, as far as known."""
    note: str
    """Who asked for a redump, and why; or the chunk that had the row. Empty if there is nothing to say."""
    values: tuple[tuple[str, str | None, str | None], ...]
    """Columns with their values before and after, as text; None where there was no row."""


def steps(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str],
    *,
    more: bool = False,
    read: RowRead | None = None,
    redumps: Mapping[str, str] | None = None,
    expires: bool = False,
) -> list[RowChange] | None:
    """The steps, oldest first.

    rows: the answer of `engine.explore.queries.history_sql`, as dictionaries; columns: the source's.

    more: the answer lacks the newest changes and the mirror's row; then there are no steps (None), rather than a wrong
    end. read: the read that brought a row that was there before the copy, if known. redumps: who asked for each, and
    why, by its id. expires: the change log does not keep old changes.

    An update has two entries, its before and after image. A row whose first entry is not an insert was there before the
    copy. The last entry, if any, is the mirror's row.
    """
    if more:
        return None
    changes: list[RowChange] = []
    before: dict[str, str] | None = None
    notes = redumps or {}
    for number, row in enumerate(rows):
        kind, image = row[TM_KIND], {column: _text(row[column]) for column in columns}
        if number == 0 and kind not in ("+I", "+U"):
            changes.append(_before(None if expires else read, _difference(None, image), expires=expires))
        if kind in ("-U", "mirror"):
            before = image
        if kind in _TITLES:
            title, colour = _TITLES[kind]
            if row.get(TM_REDUMP):
                # It writes every row as an insert, also one that did not change.
                again = kind == "+I" and (number == 0 or before is not None)
                title, colour = (_AGAIN, "blue") if again else (f"{title} by a redump", colour)
            after = None if kind == "-D" else image
            note = notes.get(str(row.get(TM_REDUMP)), "")
            changes.append(RowChange(title, colour, row.get(TM_TS), _place(row), note, _difference(before, after)))
            before = after
        elif kind == "mirror":
            changes.append(RowChange(_THERE, "green", None, "", "", _difference(None, image)))
    if rows and rows[-1][TM_KIND] != "mirror":
        changes.append(RowChange(_GONE, "gray", None, "", "", ()))
    return changes


def _before(
    read: RowRead | None, values: tuple[tuple[str, str | None, str | None], ...], *, expires: bool
) -> RowChange:
    if read is None:
        return RowChange(_KEPT if expires else _COPIED, "blue", None, "", "", values)
    return RowChange(_COPIED, "blue", read.ended, read.high or "", f"read in chunk {read.chunk}", values)


def summary(life: Sequence[RowChange]) -> str:
    """When the row began, and whether and when it ended."""
    first, last, changes = life[0], life[-1], [step for step in life if step.title not in (_THERE, _GONE)]
    began = first.title if first.title != _THERE else "In the mirror"
    if first.title == _COPIED and first.note:
        began += f", {first.note}"
    elif first.at is not None:
        began += f" at {words.date_time(first.at)}"
    deletion = changes[-1] if changes and changes[-1].colour == "red" else None
    if deletion is None:
        return f"{began}. It is {'' if last.title == _THERE else 'not '}in the mirror now."
    when = f" at {words.date_time(deletion.at)}" if deletion.at is not None else ""
    merged = " The mirror still has it, until the next merge." if last.title == _THERE else ""
    return f"{began}. {deletion.title}{when}.{merged}"


_KEPT = "Existed before the oldest change that is kept"
_COPIED, _THERE, _GONE = "There before the copy", "Now in the mirror", "Not in the mirror now"
_AGAIN = "Read again by a redump"
_TITLES = {"+I": ("Inserted", "green"), "+U": ("Updated", "orange"), "-D": ("Deleted", "red")}


def _difference(
    before: Mapping[str, str] | None, after: Mapping[str, str] | None
) -> tuple[tuple[str, str | None, str | None], ...]:
    """The columns that differ; all of them if there is a row on one side only."""
    names = list(after if after is not None else before or ())
    pairs = ((name, before[name] if before else None, after[name] if after else None) for name in names)
    return tuple(pair for pair in pairs if pair[1] != pair[2])


def _place(row: Mapping[str, Any]) -> str:
    return " · ".join(str(row[name]) for name in (TM_POSITION, TM_TX) if row.get(name))


def _text(value: Any) -> str:
    if value is None:
        return "NULL"
    text = f"0x{value.hex()}" if isinstance(value, bytes) else str(value)
    return text if len(text) <= _MOST else f"{text[:_MOST]}…"


def asked_by(one: Redumped) -> str:
    """Who asked for a redump, and why: `redump by ada: wrong totals`."""
    by = f" by {one.actor}" if one.actor else ""
    return f"redump{by}" + (f": {one.reason}" if one.reason else "")


def markdown(step: RowChange) -> str:
    """A step as Markdown: its title, time and place, and one line per value."""
    facts = " · ".join(filter(None, (words.date_time(step.at) if step.at else "", step.place, step.note)))
    lines = [f":{step.colour}[**{step.title}**] :small[:gray[{words.escape(facts)}]]"]
    for column, before, after in step.values:
        old = f"~~{words.escape(before)}~~" if before is not None else ""
        new = f"**{words.escape(after)}**" if after is not None else ""
        lines.append(f"- {words.escape(column)}: {' → '.join(filter(None, (old, new)))}")
    return "\n".join(lines)
