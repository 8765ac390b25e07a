"""Every block, command and name in the documentation is checked without a server.

`tests/live/test_docs.py` runs them.
"""

import ast
import json
import re
import shlex
import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest
import sqlglot
from pydantic import BaseModel, ValidationError

from app.common.view.roles import OPERATOR, VIEWER, role_of
from engine.pipeline.state_machines import MACHINES
from engine.run.lifecycle.early_start import UNTIL
from engine.spec.settings import Spec, parse
from engine.spec.throttle_settings import Throttle, throttled
from tests.live.support.not_run import NOT_RUN, SHORTENED
from tests.support.pages import PAGES, ROOT, Block, Command, blocks, commands, prose, spans, verbs

BASE = {"name": "base", "source": {"host": "h", "user": "u", "tables": ["d.*"]}, "sink": {"path": "lake"}}
"""A minimal spec, to which parts of a spec are added."""
INSTALLED_ELSEWHERE = {"polars", "pyspark"}
"""Modules of the reader's own tools, which a snippet may import and these tests cannot."""
LINK = re.compile(r"\]\(([^)\s]+)\)|\bsrc=\"([^\"]+)\"")
BLOCKS = [block for page in PAGES for block in blocks(page)]
COMMANDS = [command for page in PAGES for command in commands(page)]


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_each_block_is_checked(block: Block) -> None:
    """By the check for its language; a block without a language, or with an unknown one, fails."""
    assert block.language in CHECKS, f"{block} has the language {block.language!r}, which no check knows"
    CHECKS[block.language](block)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: f"{command.page}: {command.text}")
def test_each_command_can_be_given(command: Command) -> None:
    """The real parser accepts it; the files, targets and modules that it names exist. Unknown programs fail."""
    program = Path(command.words[0]).name
    assert program in PROGRAMS, f"no check knows {program}"
    PROGRAMS[program](command.words[1:])


def test_what_is_not_run_is_there() -> None:
    """Every exception of the live test occurs in the documentation; what is not run has a reason."""
    assert not set(SHORTENED) - {command.text for command in COMMANDS}
    assert not set(NOT_RUN) - {command.text for command in COMMANDS} - {block.title for block in BLOCKS}
    assert all(NOT_RUN.values())


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: f"{command.page}: {command.text}")
def test_the_rest_is_of_a_kind_that_is_run(command: Command) -> None:
    """The live test fails if it leaves one out."""
    assert command.text in NOT_RUN or command.words[0] in ("tidemark", "python", "export")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_name_is_known(page: Path) -> None:
    """Paths, options, settings and metrics in code spans exist."""
    for span in spans(page):
        for form, known in NAMES.items():
            if match := re.fullmatch(form, span):
                assert known(*match.groups()), f"{page.name} names {span}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """To a file of the repository and a heading in it. External links are not checked."""
    for link in (a or b for a, b in LINK.findall(prose(page))):
        if "://" in link:
            continue
        target, _, heading = link.partition("#")
        found = (page.parent / target).resolve() if target else page
        assert found.exists(), f"{page.name} links to {link}"
        assert not heading or heading in _anchors(found), f"{page.name} links to {link}"


def _toml(block: Block) -> None:
    values = tomllib.loads(block.text)
    if set(values) <= {"auth", "roles"}:  # the console's secrets.toml
        assert role_of("ada@example.com", values["roles"]) == OPERATOR
        assert role_of("bob@example.com", values["roles"]) == VIEWER
    elif {"name", "source", "sink"} <= set(values):
        parse(block.text, Path("spec.toml"))
    else:
        Spec.model_validate(_merged(BASE, values))


def _merged(base: Mapping[str, Any], part: Mapping[str, Any]) -> dict[str, Any]:
    both = {name: _merged(base[name], part[name]) for name in base.keys() & part.keys() if isinstance(base[name], dict)}
    return {**base, **part, **both}


def _sh(block: Block) -> None:
    """Covered by `test_each_command_can_be_given`."""
    assert [line for line in block.text.splitlines() if shlex.split(line, comments=True)], "no command"


def _python(block: Block) -> None:
    tree = ast.parse(block.text)
    compile(tree, str(block), "exec")
    modules = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    modules += [name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names]
    assert all(str(name).split(".")[0] in INSTALLED_ELSEWHERE or find_spec(str(name)) for name in modules), modules


def _sql(block: Block) -> None:
    dialect = "mysql" if "IDENTIFIED BY" in block.text else "duckdb"
    assert all(sqlglot.parse(block.text, dialect=dialect))


def _text(block: Block) -> None:
    """A diagram, or the usage line of a command."""
    if block.text.startswith("tidemark "):
        _, verb, *words = block.text.split()
        named = [p.metavar or p.name.upper() for p in verbs()[verb].params if p.param_type_name == "argument"]
        assert words == [*named, "[OPTIONS]"]
    else:
        assert set(block.text) & set("─►│┐"), "neither a diagram nor a usage line"


def _mermaid(block: Block) -> None:
    assert block.text.removesuffix("\n") in [machine.diagram() for machine in MACHINES]


CHECKS: dict[str, Callable[[Block], None]] = {
    "toml": _toml,
    "json": lambda block: json.loads(block.text),
    "sh": _sh,
    "python": _python,
    "sql": _sql,
    "text": _text,
    "mermaid": _mermaid,
}


def _tidemark(words: tuple[str, ...]) -> None:
    if words == ("--version",) or not words:
        return
    verb, *arguments = words
    command = verbs()[verb]
    taken = command.make_context(verb, list(arguments)).params
    assert taken.get("until") in (None, *UNTIL)
    if verb == "throttle" and taken["settings"]:
        throttled(Throttle(), tomllib.loads("\n".join(taken["settings"])))


def _make(words: tuple[str, ...]) -> None:
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(words) <= set(targets)


def _module(words: tuple[str, ...]) -> None:
    assert words[0] == "-m"
    assert find_spec(words[1]) is not None


def _installs(words: tuple[str, ...]) -> None:
    """It installs this project."""
    assert words == ("install", ".")
    assert "tidemark" in tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]


def _docker(words: tuple[str, ...]) -> None:
    assert words[:3] == ("build", "-t", "tidemark")
    assert (ROOT / words[3] / "Dockerfile").is_file()


def _variable(words: tuple[str, ...]) -> None:
    """It is a variable in a spec of the pages."""
    name = words[0].partition("=")[0]
    assert any(f'"{name}"' in block.text for block in BLOCKS if block.language == "toml")


def _other(words: tuple[str, ...]) -> None:
    """A program on the reader's machine."""


PROGRAMS: dict[str, Callable[[tuple[str, ...]], None]] = {
    "tidemark": _tidemark,
    "make": _make,
    "python": _module,
    "python3": _module,
    "pipx": _installs,
    "pip": _installs,
    "docker": _docker,
    "export": _variable,
    "mysqlbinlog": _other,
}


def _path(name: str) -> bool:
    return (ROOT / name).exists()


def _option(name: str) -> bool:
    """An option of our command line, the benchmark's or the tests'."""
    ours = any(name in option.opts for command in verbs().values() for option in command.params)
    others = (ROOT / "tests" / one for one in ("tools/bench/__main__.py", "conftest.py"))
    return ours or any(f'"{name}"' in path.read_text(encoding="utf-8") for path in others)


def _setting(section: str, key: str) -> bool:
    """Whether the spec has this key; keys below a dictionary with user-defined names are not checked."""
    model: Any = Spec
    for part in (*section.split("."), key):
        if get_origin(model) is dict:
            model = get_args(model)[1]
        if not (isinstance(model, type) and issubclass(model, BaseModel)) or part not in model.model_fields:
            return False
        model = model.model_fields[part].annotation
    return True


def _assigned(key: str, value: str) -> bool:
    """Whether some section of a spec accepts the value."""
    sections: list[Any] = [field.annotation for field in Spec.model_fields.values() if _is_section(field.annotation)]
    fields = [field.annotation for section in sections for field in section.model_fields.values()]
    sections += [one for field in fields for one in get_args(field) if _is_section(one)]
    holders = [model for model in sections if key in model.model_fields]
    typed, accepted = tomllib.loads(f"it = {value}")["it"], 0
    for model in holders:
        with suppress(ValidationError):
            model.__pydantic_validator__.validate_assignment(model.model_construct(), key, typed)
            accepted += 1
    return accepted > 0


def _is_section(model: Any) -> bool:
    return isinstance(model, type) and issubclass(model, BaseModel)


def _metric(name: str) -> bool:
    sources = (ROOT / "engine" / "status").glob("*.py")
    return any(f'"{name}"' in path.read_text(encoding="utf-8") for path in sources)


SECTIONS = "|".join(name for name, field in Spec.model_fields.items() if _is_section(field.annotation))
NAMES: dict[str, Callable[..., bool]] = {
    r"((?:engine|app|docs|tests|assets)/[\w./-]*)": _path,
    r"(--[a-z-]+)(?: .*)?": _option,
    rf"((?:{SECTIONS})(?:\.[a-z_]+)*?)\.([a-z_]+)": _setting,
    r"([a-z_]+) = (\"[a-z]+\"|\d+)": _assigned,
    r"tidemark_([a-z_]+)": _metric,
    r"tidemark ([a-z][a-z-]*)": lambda verb: verb in verbs(),
}
"""A pattern of code spans, and the check that what they name exists."""


@cache
def _anchors(page: Path) -> set[str]:
    """The headings of a page as GitHub links to them."""
    names = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", name.lower()).replace(" ", "-") for name in names}


def test_each_step_of_the_quick_start_that_starts_a_runner_names_the_password() -> None:
    """The spec names its variable, and its steps are followed in one shell or in several."""
    page = (ROOT / "docs" / "quick-start.md").read_text(encoding="utf-8")
    (spec,) = (
        tomllib.loads(block.text) for block in BLOCKS if block.page == "quick-start.md" and block.language == "toml"
    )
    assert {"host", "port", "user"} <= spec["source"].keys()
    variable = spec["source"]["password_env"]
    steps = page.split("\n## ")
    starting = [step for step in steps if "tidemark run shop.toml" in step or "tidemark console" in step]
    assert [f"export {variable}=…" in step for step in starting] == [True, True]
