"""Two ways to operate a page: by mouse, and by keyboard alone. The story test runs with each.

The keyboard hand only presses keys, like a person without a mouse: Tab moves to an element or to a group with one tab
stop (tabs, tiles, a list), and arrow keys move within the group. An element that it cannot focus is a bug of the
console.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol
from urllib.parse import urlsplit

from playwright.sync_api import Error, Locator, Page, expect

MOST_KEYS = 250
"""The most keys to press for one element."""

_FOCUSED = """
const focused = () => {
    let at = document.activeElement
    while (at?.shadowRoot?.activeElement) at = at.shadowRoot.activeElement
    return at
}
const group = of => of.closest("[role=tablist], [role=radiogroup], [role=group]")
"""
# Where the focus is, relative to an element: on it, on another element of its group with one tab stop, before or behind
# it.
_SEEN_FROM = f"""wanted => {{ {_FOCUSED}
    const at = focused()
    if (at === wanted) return "there"
    if (!at || at === document.body) return "before"
    const stops = wanted.tabIndex >= 0 && wanted.role !== "radio"
    if (!stops && group(wanted) && group(wanted) === group(at)) {{
        return at.compareDocumentPosition(wanted) & Node.DOCUMENT_POSITION_FOLLOWING ? "forth" : "back"
    }}
    const top = one => one.getRootNode().host ? top(one.getRootNode().host) : one
    const [from, to] = top(at) === top(wanted) ? [at, wanted] : [top(at), top(wanted)]
    return from.compareDocumentPosition(to) & Node.DOCUMENT_POSITION_PRECEDING ? "behind" : "before"
}}"""
_FOCUSED_HTML = f"() => {{ {_FOCUSED} const at = focused(); return at ? at.outerHTML.slice(0, 200) : 'nothing' }}"
_IN_WHAT_OPENED = f"() => {{ {_FOCUSED} return focused()?.closest('[data-testid=stPopoverBody]') }}"
_ACTIVE_OPTION = f"""() => {{ {_FOCUSED}
    return document.getElementById(focused()?.getAttribute("aria-activedescendant"))?.innerText ?? ""
}}"""
_KEYS = {"before": "Tab", "behind": "Shift+Tab"}


class Hand(Protocol):
    """The actions of an operator in the story test."""

    page: Page

    def press(self, what: Locator) -> None:
        """A button, a link, a tile, a tab."""

    def tick(self, box: Locator) -> None:
        """Toggle a checkbox of a list."""

    def enter(self, box: Locator, name: Locator) -> None:
        """Open the details of a row: by its name, or by Enter on its checkbox."""

    def write(self, field: Locator, text: str) -> None:
        """Replace a field's text and leave it."""

    def search(self, field: Locator, text: str) -> None:
        """Replace the text of a field that reacts to each character."""

    def append(self, field: Locator, text: str) -> None:
        """Append to a long text and submit it."""

    def choose(self, field: Locator, option: str) -> None:
        """Select an option of a list, or one more if several can be selected."""


class Mouse:
    """Points and clicks; types text."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def press(self, what: Locator) -> None:
        what.click()

    def tick(self, box: Locator) -> None:
        box.click()

    def enter(self, box: Locator, name: Locator) -> None:
        name.click()

    def write(self, field: Locator, text: str) -> None:
        self.search(field, text)
        field.press("Tab")

    def search(self, field: Locator, text: str) -> None:
        field.click()
        field.fill(text)

    def append(self, field: Locator, text: str) -> None:
        field.click()
        field.press("Control+End")
        field.press_sequentially(text)
        field.press("Control+Enter")

    def choose(self, field: Locator, option: str) -> None:
        field.click()
        field.press_sequentially(option)  # a long list has only its visible part in the DOM
        self.page.get_by_role("option", name=re.compile(re.escape(option))).first.click()
        self.page.keyboard.press("Escape")


class Keyboard:
    """Only presses keys."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def press(self, what: Locator) -> None:
        """A popover takes the focus, so wait until it is open."""
        self.move_to(what)
        opens = what.get_attribute("data-testid") == "stPopoverButton"
        self._key("Enter")
        if opens:
            self.page.wait_for_function(_IN_WHAT_OPENED)

    def tick(self, box: Locator) -> None:
        self.move_to(box, "ArrowDown", "ArrowUp")
        self._key("Space")

    def enter(self, box: Locator, name: Locator) -> None:
        self.move_to(box, "ArrowDown", "ArrowUp")
        self._key("Enter")

    def write(self, field: Locator, text: str) -> None:
        self.search(field, text)
        self._key("Tab")

    def search(self, field: Locator, text: str) -> None:
        self.move_to(field)
        self._key("Control+A")
        self._key("Delete")
        self.page.keyboard.type(text)

    def append(self, field: Locator, text: str) -> None:
        self.move_to(field)
        self._key("Control+End")
        self.page.keyboard.type(text)
        self._key("Control+Enter")

    def choose(self, field: Locator, option: str) -> None:
        self.move_to(field)
        self.page.keyboard.type(option)
        wanted = re.compile(re.escape(option))
        expect(self.page.get_by_role("option", name=wanted).first).to_be_visible()
        for _ in range(MOST_KEYS):  # the first option may select all matches
            if wanted.search(self.page.evaluate(_ACTIVE_OPTION)):
                break
            self._key("ArrowDown")
        self._key("Enter")
        self._key("Escape")

    def move_to(self, what: Locator, forth: str = "ArrowRight", back: str = "ArrowLeft") -> None:
        """Move the focus to an element; `forth` and `back` move within its group."""
        expect(what).to_be_visible()
        keys = _KEYS | {"forth": forth, "back": back}
        for _ in range(MOST_KEYS):
            where = what.evaluate(_SEEN_FROM)
            if where == "there":
                return
            self._key(keys[where])
        raise AssertionError(
            f"{MOST_KEYS} keys do not move the focus to {what}; it is on {self.page.evaluate(_FOCUSED_HTML)}"
        )

    def _key(self, key: str) -> None:
        self.page.keyboard.press(key)


HANDS: dict[str, type[Mouse | Keyboard]] = {"mouse": Mouse, "keyboard": Keyboard}


def open_from_navigation(page: Page, name: str, press: Callable[[Locator], None] = Locator.click) -> None:
    """Press a page's name in the header until its page is open.

    A click can be lost: if an autorefresh reaches the server while the click still waits there, Streamlit merges both
    requests and keeps the page of the later one (`ScriptRequests.request_rerun` in 1.67). An operator clicks again, and
    so does this.
    """
    path = {"Pipelines": "/"}.get(name, f"/{name.lower()}")
    for _ in range(3):
        press(page.get_by_role("link", name=name).first)
        with suppress(Error):
            page.wait_for_url(lambda url: urlsplit(url).path == path, timeout=7_000)
            page.wait_for_timeout(400)  # if the click was lost, the old page's address is back by now
            if urlsplit(page.url).path == path:
                return
    raise AssertionError(f"three clicks on {name} did not open its page; the page is {page.url}")


def select(page: Page, label: str, option: str) -> None:
    """Select an option of a list by mouse. A list closes if the page moves below it; then it is opened again."""
    field = page.get_by_role("combobox", name=label).first
    for _ in range(5):
        field.click()
        with suppress(Error, AssertionError):
            page.get_by_role("option", name=option, exact=True).click(timeout=3000)
            return expect(field).to_have_value(option, timeout=5000)
    raise AssertionError(f"{option} cannot be selected as {label}")
