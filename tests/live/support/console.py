"""What the console shows, read from the element tree that Streamlit would send to a browser."""

import json
import re
import time
from datetime import datetime
from html import unescape
from pathlib import Path
from typing import Any

from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from tests.support.patience import PATIENCE_S

ROOT = Path(__file__).parents[3]
_UNITS = {"": 1, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_SECONDS = {"ms": 0.001, "s": 1, "min": 60, "h": 3600, "d": 86_400}


class Screen:
    """One screen, rendered once: `Screen("live", pipeline="shop", section="Overview")`."""

    def __init__(self, name: str, **query: str) -> None:
        page = AppTest.from_file(str(ROOT / "app" / "main.py"), default_timeout=PATIENCE_S)
        page._page_hash = calc_hash(name)  # `switch_page` knows the folder `pages/` alone
        for key, value in query.items():
            page.query_params[key] = value
        self.page = page.run()
        self._healthy()

    def _healthy(self) -> None:
        assert not self.page.exception, self.page.exception
        assert not self.page.error, [one.value for one in self.page.error]

    @property
    def text(self) -> str:
        """All text on the screen, one line per element, without Markdown."""
        parts = [*self.page.markdown, *self.page.caption, *self.page.code, *self.page.title]
        markup = [
            re.sub("<style>.*?</style>|<[^>]+>", "", part.proto.body, flags=re.DOTALL) for part in self.page.get("html")
        ]
        return "\n".join([*(_bare(str(part.value)) for part in parts), *map(unescape, markup)])

    def find(self, pattern: str) -> tuple[str, ...]:
        """The groups of the only match in the text."""
        found = {match.groups() for match in re.finditer(pattern, self.text)}
        assert len(found) == 1, f"{pattern!r} fits {found or 'nothing'} in:\n{self.text}"
        return found.pop()

    def table(self, *heads: str) -> Any:
        """The only table that has these columns."""
        found = [one.value for one in self.page.dataframe if set(heads) <= set(one.value.columns)]
        assert len(found) == 1, [list(one.value.columns) for one in self.page.dataframe]
        table: Any = found[0]
        return table

    def lines(self, *heads: str) -> dict[str, dict[str, Any]]:
        """The rows of that table, by the value of the first of these columns."""
        return {str(line[heads[0]]): line for line in self.table(*heads).to_dict("records")}

    @property
    def charts(self) -> list[dict[str, Any]]:
        """The figures, as plotly receives them."""
        return [json.loads(chart.proto.spec) for chart in self.page.get("plotly_chart")]

    def component(self, name: str) -> dict[str, Any]:
        """The data that our component of this name receives."""
        (found,) = [
            one.proto for one in self.page.get("bidi_component") if one.proto.component_name == f"tidemark_{name}"
        ]
        data: dict[str, Any] = json.loads(found.json or found.mixed.json)
        return data

    def facts(self) -> dict[str, str]:
        """The contents of all tables of labels and values, as a browser shows their Markdown."""
        return {
            str(key): re.sub(r"\\(.)", r"\1", str(value)) for one in self.page.table for key, value in _pairs(one.value)
        }

    def press(self, key: str) -> None:
        """Press the button with this key and wait for the next rendering."""
        self.page.button(key=key).click().run()
        self._healthy()

    def wait_for(self, words: str, timeout_s: float = PATIENCE_S) -> None:
        """Render again until a background thread has finished and the page shows its result."""
        deadline = time.monotonic() + timeout_s
        while words not in self.text:
            assert time.monotonic() < deadline, self.text
            time.sleep(0.2)
            self.page.run()
            self._healthy()


def _pairs(table: Any) -> list[tuple[Any, Any]]:
    return list(table.iloc[:, 0].items())


def _bare(text: str) -> str:
    r"""The text without `**`, `:red[…]`, icons and escaped characters."""
    text = re.sub(r"(?<!\\):material/\w+:", "", text)
    text = re.sub(r"(?<!\\):[a-z-]+\[|(?<!\\)\]|\*\*|&nbsp;|&ensp;|^#+ ", "", text)
    return re.sub(r"\\(.)", r"\1", text)


def says(shown: object, truth: float) -> None:
    """Assert that `5.9M`, `1,248` or `12 KB` is this number, correct to the last digit shown."""
    match = re.fullmatch(r"~?(-?[\d,]+)(\.\d+)?\s?([kKMGT]?)B?%?", str(shown).strip())
    assert match, f"{shown!r} is no number, it should be {truth}"
    whole, part, unit = match.groups()
    digits = len(part) - 1 if part else 0
    value = float(whole.replace(",", "") + (part or "")) * _UNITS[unit]
    whole_number = not unit and not digits and float(truth).is_integer()
    off = 0.0 if whole_number else 0.5001 * _UNITS[unit] / 10**digits
    assert abs(value - truth) <= off, f"{shown!r} is shown, it is {truth}"


def lasts(shown: object, truth_s: float, *, passed_s: float = 0.0) -> None:
    """Assert that `87 ms`, `0.4 s` or `3 min 20 s` is this time, correct to the last digit.

    Hours and days are truncated.

    passed_s: the time that may have passed since a running time was shown.
    """
    parts = [(float(number), unit) for number, unit in re.findall(r"([\d.]+)\s?(ms|s|min|h|d)\b", str(shown))]
    assert parts, f"{shown!r} is no time, it should be {truth_s} s"
    value = sum(number * _SECONDS[unit] for number, unit in parts)
    (_, first), half = parts[0], 0.5
    if first == "ms":
        half = 0.0005
    elif first == "s" and value < 9.95:
        half = 0.05
    cut = {"h": 60.0, "d": 3600.0}.get(first, 0.0)
    low, high = value - half * 1.001, value + half * 1.001 + cut
    assert low <= truth_s <= high + passed_s, f"{shown!r} is shown, it is {truth_s} s"


def offset(position: str) -> int:
    """The offset in `file:offset`."""
    return int(position.rpartition(":")[2])


def seconds(read: dict[str, Any]) -> float:
    """How long a reader took for the chunk."""
    return (datetime.fromisoformat(read["ended"]) - datetime.fromisoformat(read["started"])).total_seconds()
