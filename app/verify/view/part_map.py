"""The parts of a table by the age of their verification, as tiles.

The map is markup: it is there at once, where a chart waits for a library of megabytes.
"""

import html
from collections.abc import Sequence
from dataclasses import dataclass

from app.common.view import words
from app.common.view.status_style import HEX
from engine.base.wording import rows_differ

_AGES = ((3600, "up to 1 h"), (6 * 3600, "6 h"), (86_400, "1 d"), (7 * 86_400, "7 d"), (float("inf"), "older"))
"""Upper bounds in seconds, with their labels."""
_SHARES = (16, 30, 44, 58, 80)
"""How much blue the tile of an age has, in percent."""
_STYLE = (
    "<style>.parts-map {display: grid; grid-template-columns: repeat(auto-fill, minmax(16px, 1fr)); gap: 3px}"
    ".parts-map i, .parts-key i {height: 16px; border-radius: 3px; font: normal 600 11px/16px sans-serif; text-align: "
    "center}.parts-key {display: flex; flex-wrap: wrap; gap: 4px 16px; font-size: 0.8rem; margin-bottom: 8px}"
    ".parts-key span {display: flex; align-items: center; gap: 6px} .parts-key i {width: 16px}"
    + "".join(
        f".parts-age{n} {{background: color-mix(in oklab, {HEX['blue']} {share}%, light-dark(#ffffff, #0d171e))}}"
        for n, share in enumerate(_SHARES)
    )
    + ".parts-never {border: 1px dashed; opacity: 0.7}"
    + f".parts-differ {{background: {HEX['red']}; color: #ffffff}}</style>"
)


@dataclass(frozen=True)
class PartTile:
    """One part, or neighbours of one tile."""

    label: str
    rows: str
    """How many rows it has, in words."""
    age_s: float | None
    """Since the oldest comparison; None: a part was never compared."""
    differences: int


def markup(tiles: Sequence[PartTile]) -> str:
    """The tiles and their legend, as HTML. A tile with rows that differ has a ✕, not only another colour."""
    looks = [_look(tile) for tile in tiles]
    cells = "".join(
        f'<i class="{look}" title="{html.escape(_title(tile))}">{"✕" if tile.differences else ""}</i>'
        for tile, look in zip(tiles, looks, strict=True)
    )
    differ = sum(1 for tile in tiles if tile.differences)
    alt = f"{words.plural(len(tiles), 'tile')} of parts by age, {differ:,} with rows that differ"
    keys = "".join(
        f'<span><i class="{look}">{mark}</i>{label}</span>' for look, mark, label in _legend() if look in looks
    )
    return (
        f'{_STYLE}<div class="parts-key">{keys}</div><div class="parts-map" role="img" aria-label="{alt}">{cells}</div>'
    )


def _legend() -> list[tuple[str, str, str]]:
    ages = [(f"parts-age{n}", "", label) for n, (_, label) in enumerate(_AGES)]
    return [*ages, ("parts-never", "", "never compared"), ("parts-differ", "✕", "has rows that differ")]


def _look(tile: PartTile) -> str:
    if tile.differences:
        return "parts-differ"
    if tile.age_s is None:
        return "parts-never"
    return f"parts-age{next(n for n, (most, _) in enumerate(_AGES) if tile.age_s <= most)}"


def _title(tile: PartTile) -> str:
    age = "never compared" if tile.age_s is None else f"compared {words.duration(round(tile.age_s))} ago"
    return f"{tile.label}: {age}, {tile.rows}" + (f", {rows_differ(tile.differences)}" if tile.differences else "")
