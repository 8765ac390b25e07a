"""A fuzz over addresses: a page opens what its address names, or asks.

It never raises, nor shows or acts on anything else.
"""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from streamlit import config
from streamlit.runtime.scriptrunner.script_cache import ScriptCache
from streamlit.testing.v1 import AppTest, app_test
from streamlit.testing.v1.element_tree import Block
from streamlit.util import calc_hash

from app.common import engine, home
from app.common.view import words
from app.live import destination_section
from app.wizard import drafts
from engine.base.errors import TidemarkError
from engine.decode.schema import Table
from engine.explore import queries
from engine.pipeline.directory import Directory
from tests.support.depth import depth
from tests.support.simulation import SimulatedTable, Simulation, real_now

MAIN = Path(__file__).parents[3] / "app" / "main.py"
CASES, SEED = depth(120, 1000), 17
TABLES = {"east": ["d.t", "d.u"], "west": ["d.t", "d.v", "d.w"]}
"""The tables of each pipeline that are captured."""
LAST_CHUNK = {"east": {"d.t": 5, "d.u": 0}, "west": {"d.t": 2, "d.v": 0, "d.w": 0}}
LARGEST = "d.t"
REMOVED = "d.w"
"""A table that west no longer captures."""
DRAFT = "0000abcd"
GARBAGE = (
    "gone",
    "EAST",
    " east",
    "east,west",
    "\ufffd\ufffd",
    "\x00",
    "../east",
    "<b>d.t</b>",
    "d.t' OR 1=1 --",
    "%65ast",
    "[link](x) :red[$x$]",
    "\u202etsae",
    "🦀" * 40,
    "x" * 3000,
)
NUMBERS = ("0", "2", "5", "6", "99", "-1", "1.5", "1e9", "nan", "inf", "9" * 30, "0x1", "two", "")
RUNS = ("east/20261121-053000-a1b2", "west/20261121-053000-a1b2")
PAGES = ("live", "table", "verify", "redump", "explore", "history", "alerts", "diagnostics", "new")
SECTIONS = (
    "Overview",
    "Chunks",
    "Readers",
    "Watermarks",
    "Plan",
    "Pace",
    "Tables",
    "Destination",
    "Events",
    "Source",
    "Spec",
)
Address = dict[str, list[str]]


@dataclass
class Asked:
    """The calls of the command line, as pipeline and request."""

    calls: list[tuple[str, Any]] = field(default_factory=list)

    def ask(self, verb: str, spec: Path, words: Any = (), *, stdin: str = "", timeout_s: float = 0) -> dict[str, Any]:
        """An answer without effect."""
        self.calls.append((spec.parent.name, json.loads(stdin)))
        return {"tables": [], "arguments": {}}


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    """A console on two pipelines that have tables of the same name, one of them a removed one."""
    root, found = tmp_path_factory.mktemp("home"), Asked()
    began, cache = real_now() - timedelta(seconds=60), ScriptCache()
    for name, tables in TABLES.items():
        sizes = [SimulatedTable(table, 4000 - n, LAST_CHUNK[name][table] + 1) for n, table in enumerate(tables)]
        run = Simulation(root / name, sizes, start=began).advance(30)
        if name == "west":
            run.write("table.state", table=REMOVED, state="removed")
        run.runner(heartbeat=began)
    (root / ".drafts").mkdir()
    address = config.get_option("server.address")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDEMARK_HOME", str(root))
        patch.setattr(engine, "ask", found.ask)
        patch.setattr(queries, "published_tables", published)
        patch.setattr(destination_section, "conditions", lambda *_: [])
        patch.setattr(app_test, "ScriptCache", lambda: cache)  # parsing a page takes longer than running it
        config.set_option("server.address", "127.0.0.1")
        config.set_option("runner.magicEnabled", False)
        st.cache_resource.clear()
        drafts.change(DRAFT, lambda draft: draft.put("name", value="north"))
        yield found
        home.history().close()
        st.cache_resource.clear()
        config.set_option("server.address", address)
        config.set_option("runner.magicEnabled", True)


def published(where: Directory) -> list[Table]:
    """The tables of the destination."""
    names = [name.split(".") for name in captured(where.root.name)]
    return [Table(database, name, (), ("id",)) for database, name in names]


def captured(name: str) -> list[str]:
    """The tables that a pipeline captures now."""
    return [table for table in TABLES[name] if (name, table) != ("west", REMOVED)]


def addresses(chance: random.Random) -> Iterator[tuple[str, Address]]:
    """Random pages with parameters that are left out, empty, repeated, unknown, or those of another pipeline."""

    def some(usual: tuple[str, ...]) -> list[str]:
        how = chance.random()
        if how < 0.1:
            return [""]
        if how < 0.3:
            return [chance.choice(GARBAGE)]
        values = [chance.choice(usual)]
        return values if how < 0.9 else [chance.choice((*usual, *GARBAGE, "")), *values]

    tables = ("d.t", "d.t", "d.u", "d.v", REMOVED)
    offered = {
        "pipeline": (0.75, tuple(TABLES)),
        "table": (0.7, tables),
        "section": (0.6, ("Chunks", "Chunks", *SECTIONS)),
        "chunk": (0.5, NUMBERS),
        "chunks": (0.5, ("3", "0, 2–3", "9-1", "99999", *NUMBERS)),
        "part": (0.5, ("Chunks", "Range", "Keys", "Table", "Everything")),
        "lower": (0.2, NUMBERS),
        "upper": (0.2, NUMBERS),
        "way": (0.3, ("SQL", "One key through time", "As the source was at")),
        "sql": (0.2, ("SELECT 1", "'")),
        "at": (0.2, ("2026-01-31T15:30:17Z", "yesterday", *NUMBERS)),
        "key-0": (0.2, NUMBERS),
        "kinds": (0.2, ("Run", "Errors")),
        "contains": (0.2, tables),
        "span": (0.2, ("5 min", "24 h")),
        "readers-span": (0.1, ("all",)),
        "windows-table": (0.3, (*tables, "all tables")),
        "events-table": (0.3, (*tables, "all tables")),
        "windows-shown": (0.2, ("20", "80", "21")),
        "keys": (0.3, ("17", "17\n18", '["de", 5]', "x" * 3000)),
        "compare": (0.4, (*RUNS, "gone/1", "east", "")),
        "key": (0.3, NUMBERS),
        "draft": (0.5, (DRAFT, "0000ffff")),
        "step": (0.5, ("Connect", "Preflight", "Spark", "TOML")),
        "nonsense": (0.1, ("1",)),
        "embed": (0.05, ("true",)),
    }
    while True:
        yield (
            chance.choice(PAGES),
            {name: some(usual) for name, (share, usual) in offered.items() if chance.random() < share},
        )


def named(address: Address, name: str) -> str | None:
    """What an address names; of a repeated parameter the last."""
    return address.get(name, [""])[-1] or None


class Tab:
    """A tab of a browser: its session, and the pipeline that was selected last."""

    def __init__(self, components: list[Any]) -> None:
        self.page = AppTest.from_file(str(MAIN), default_timeout=30)
        self.page._bidi_component_manager = components[0] if components else None
        self.last: str | None = None

    def open(self, page: str, address: Address) -> AppTest:
        """Open an address, as a link does.

        The browser sends the fields of the page before, then the values of the link.
        """
        bound = self.page._session_state._state.query_params._bindings_by_param
        before = {name: values for name, values in self.shown().items() if name in bound}
        self.page._page_hash = calc_hash(page)
        self.page.query_params = {name: before.get(name, []) + address.get(name, []) for name in {**before, **address}}
        return self.page.run()

    def shown(self) -> Address:
        """The parameters in the browser's address bar: those of the server, and those that the page adds."""
        kept = [one for one in self.page.get("bidi_component") if "address" in one.proto.component_name]
        added = json.loads(kept[0].proto.json)["values"] if kept else {}
        found = {name: [value] if isinstance(value, str) else value for name, value in self.page.query_params.items()}
        return {**found, **added}


def shown_text(page: AppTest) -> str:
    """All texts of the page."""
    kinds = (page.markdown, page.caption, page.error, page.info, page.warning)
    return "\n".join(element.value for kind in kinds for element in kind)


def chosen(page: AppTest, label: str) -> list[Any]:
    """The values of the selection boxes with this label."""
    return [box.value for box in page.selectbox if box.label == label]


def check_pipeline(tab: Tab, address: Address) -> str | None:
    """The page has selected the pipeline of the address, else that of the tab, or it asks."""
    want = named(address, "pipeline")
    (got,) = chosen(tab.page, "Pipeline")
    if want is not None and want not in TABLES:
        assert got is None
        assert "There is no pipeline " in shown_text(tab.page)
        return None
    want = want or tab.last
    assert got == want
    if want is None:
        assert words.escape("No pipeline is selected.") in shown_text(tab.page)
    tab.last = want or tab.last
    return want


def check_table(page: AppTest, address: Address, names: list[str], usual: str | None) -> str | None:
    """The page has selected the table of the address, else the usual one, or it asks."""
    want = named(address, "table")
    (got,) = chosen(page, "Table")
    if want is not None and want not in names:
        assert got is None
        assert "This pipeline has no table " in shown_text(page) or "The table in the address is not" in shown_text(
            page
        )
        return None
    want = want or usual
    assert got == want
    return want


def check_chunk(page: AppTest, address: Address, pipeline: str, table: str) -> None:
    """The selected chunk is that of the address, if the table has it."""
    last = LAST_CHUNK[pipeline][table]
    (number,) = [one for one in page.number_input if one.label.startswith("Chunk, ")]
    text = named(address, "chunk") or ""
    exists = text.isdecimal() and int(text) <= last
    assert number.value == (int(text) if exists else None)
    assert exists or not text or "has no chunk " in shown_text(page)


def check_redump(page: AppTest, address: Address, pipeline: str, table: str | None, asked: Asked) -> None:
    """The form has values only if the address names the pipeline, and counts nothing but what the address names."""
    fields = {(one.key or "").partition(" ")[0]: one.value or "" for one in (*page.text_input, *page.text_area)}
    for name in ("chunks", "lower", "upper"):
        if name in fields:
            assert fields[name] == (named(address, name) or ""), name
    if "keys" in fields:
        assert fields["keys"] == (named(address, "keys") or "")
    for name, request in asked.calls:
        assert address
        assert name == pipeline
        if named(address, "part") == "Everything":
            assert request == {"tables": []}
        else:
            assert request["tables"] == [table]


def check_live(page: AppTest, address: Address, pipeline: str) -> None:
    """The section with the chunk map has the table and the chunk of the address."""
    section = named(address, "section")
    if section == "Chunks":
        table = check_table(page, address, TABLES[pipeline], LARGEST)
        if table is not None:
            check_chunk(page, address, pipeline, table)
    elif section == "Watermarks":
        check_filter(page, address, "windows-table", "all tables", TABLES[pipeline])
    elif section == "Events":
        check_filter(page, address, "events-table", "all tables", TABLES[pipeline])


def check_filter(page: AppTest, address: Address, name: str, everything: str, names: list[str]) -> None:
    """A filter has the value of the address, or the page says that there is none."""
    want = named(address, name)
    (box,) = [one for one in page.selectbox if one.key == name]
    if want is None:  # the tab keeps its filters
        assert box.value in (everything, *names)
    elif want in (everything, *names):
        assert box.value == want
    else:
        assert box.value == everything
        assert "There is no " in shown_text(page)


def check_compared(tab: Tab, address: Address) -> None:
    """The runs of the address are compared if they are in the list, and no others.

    The page names those that are not.
    """
    (box,) = [one for one in tab.page.selectbox if one.key == "pipeline"]
    listed = [run for run in RUNS if box.value in ("all pipelines", run.partition("/")[0])]
    asked = list(dict.fromkeys(address.get("compare", [])))
    assert [one for one in tab.shown().get("compare", []) if one] == [one for one in asked if one in listed]
    assert any(one.value == "Compared" for one in tab.page.subheader) == any(one in listed for one in asked)
    assert any(one and one not in listed for one in asked) == ("Not in this list" in shown_text(tab.page))


def check_new(page: AppTest, address: Address) -> None:
    """A draft is opened only by its id, and a step only by its name."""
    draft, step, text = named(address, "draft"), named(address, "step"), shown_text(page)
    if draft is None:
        assert "**Drafts**" in text
    elif draft not in (DRAFT, "0000ffff"):
        assert "There is no draft " in text
    elif step not in (None, "Connect", "Preflight", "Spark", "TOML"):
        assert "There is no step " in text
    else:
        assert page.title[0].value.startswith("New pipeline :gray[north]" if draft == DRAFT else "New pipeline")


def check(tab: Tab, name: str, address: Address, asked: Asked) -> None:
    """The page shows what its address names, or asks."""
    page = tab.page
    assert not page.exception
    if name == "history":
        check_filter(page, address, "pipeline", "all pipelines", list(TABLES))
        check_compared(tab, address)
    elif name == "alerts":
        want = named(address, "pipeline")
        assert chosen(page, "Pipeline") == [want if want in TABLES else "All pipelines"]
        assert (want is None or want in TABLES) or "There is no pipeline " in shown_text(page)
    elif name == "new":
        check_new(page, address)
    else:
        pipeline = check_pipeline(tab, address)
        if pipeline is None:
            assert not asked.calls
            assert not [one for one in page.selectbox if one.label == "Table"]
        elif name == "live":
            check_live(page, address, pipeline)
        elif name == "table":
            check_table(page, address, TABLES[pipeline], None)
        elif name in ("explore", "verify"):
            check_table(page, address, captured(pipeline), captured(pipeline)[0])
        elif name == "redump":
            whole = named(address, "part") == "Everything" and named(address, "pipeline") == pipeline
            form = address if named(address, "pipeline") else {}  # otherwise it is empty
            table = None if whole else check_table(page, form, captured(pipeline), None)
            check_redump(page, form, pipeline, table, asked)


def test_a_page_opens_what_its_address_names_or_asks(asked: Asked) -> None:
    """In a new tab, and in one that has shown other pages and pipelines before."""
    chance, components = random.Random(SEED), list[Any]()
    tab, way = Tab(components), list[tuple[str, Address]]()
    cases = addresses(chance)
    for _ in range(CASES):
        if chance.random() < 0.4:
            tab, way = Tab(components), []
        name, address = next(cases)
        if way and way[-1][0] == name:  # a link leads to another page
            continue
        way.append((name, address))
        asked.calls.clear()
        components[:] = [tab.open(name, address)._bidi_component_manager]
        try:
            check(tab, name, address, asked)
        except (AssertionError, ValueError) as fault:
            fault.add_note("\n".join(f"{page} {query}" for page, query in way))
            fault.add_note(f"{[e.value for e in tab.page.exception]} {shown_text(tab.page)[:600]}")
            raise


def test_a_refused_start_moves_nothing_on_the_live_page(asked: Asked) -> None:
    """A part that moved would be on the page twice, until the run of the whole page has ended."""
    components = list[Any]()
    tab = Tab(components)

    def place() -> list[int]:
        """Where the status line is."""
        blocks = tab.page.main.children.items()
        return [
            number
            for number, block in blocks
            if isinstance(block, Block) and any("status-line" in one.proto.body for one in block.get("html"))
        ]

    before = (tab.open("live", {"pipeline": ["east"]}), place())[1]
    tab.page.session_state["refused east"] = TidemarkError("The password is not set.")
    tab.page.run()
    assert "The password is not set" in shown_text(tab.page)
    assert place() == before
    assert len(before) == 1
