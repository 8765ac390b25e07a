"""`[sink.database]`: what is refused, and where the tables are."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from engine.base.errors import SpecError
from engine.cli.systemd_unit import unit_of
from engine.pipeline.directory import directory_of
from engine.spec.settings import Spec, load
from engine.spec.sink_settings import Sink

DATABASE = {"host": "h", "database": "lake", "user": "u"}


def sink(kind: str = "postgresql", path: str | None = "staged", **more: Any) -> dict[str, Any]:
    """A sink with a database."""
    return {"type": kind, **({"path": path} if path else {}), "database": {**DATABASE, **more}}


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"type": "delta", "path": "lake", "database": DATABASE}, "belongs to type = "),
        (sink("mysql", state_schema="x"), "not for type = "),
        (sink("duckdb"), "database.file: missing"),
        ({"type": "duckdb", "path": "p", "database": {"file": "f", "port": 1}}, "database.port: not for type = "),
        (sink(file="f"), "database.file: not for type = "),
        ({"type": "mysql", "path": "p", "database": {"host": "h", "user": "u"}}, "database.database: missing"),
        (sink(table="{database}"), "no rule for tables"),
        (sink(table="{table}.x"), "no rule for tables"),
        (sink(table="a.b.{table}"), "no rule for tables"),
        (sink(tls="required", ca="ca.pem"), "only with tls"),
        (sink(port=70_000), "less than or equal to 65535"),
        ({**sink(), "mirror": "copy_on_write"}, "only for type = "),
        ({**sink(), "path": "postgresql://other"}, "is no folder and no bucket"),
    ],
)
def test_what_is_refused(values: dict[str, Any], why: str) -> None:
    """With the reason."""
    with pytest.raises(ValidationError, match=why):
        Sink.model_validate(values)


def test_the_place_names_server_database_and_rule() -> None:
    """Two sinks in one place would mix their tables."""
    assert Sink.model_validate(sink(path=None)).path == "postgresql://h:5432/lake/{database}.{table}"
    assert (
        Sink.model_validate(sink("mysql", path=None, port=3307, table="{table}")).path == "mysql://h:3307/lake/{table}"
    )


@pytest.mark.parametrize(
    ("first", "further", "why"),
    [
        ({"type": "postgresql", "path": "staged"}, [], "needs its server and login"),
        (sink(path=None), [], "readers put their files there"),
        ({"path": "lake"}, [{"name": "a", **sink()}], "has none: the first one has the readers' files"),
    ],
)
def test_a_spec_is_complete(first: dict[str, Any], further: list[dict[str, Any]], why: str) -> None:
    """The first destination needs a folder for readers' files, a further one has none."""
    source = {"host": "h", "user": "u", "tables": ["d.*"]}
    with pytest.raises(ValidationError, match=why):
        Spec.model_validate({"name": "x", "source": source, "sink": first, "sinks": further})


def test_two_sinks_in_one_place_are_refused(tmp_path: Path) -> None:
    """And the variables of all passwords are named in the unit of systemd."""
    text = """
name = "shop"
source = { host = "h", user = "u", tables = ["d.*"] }
sink = { path = "lake" }
[[sinks]]
name = "one"
type = "mysql"
database = { host = "h", database = "lake", user = "u", password_env = "ONE_PASSWORD" }
[[sinks]]
name = "two"
type = "mysql"
database = { host = "h", database = "lake", user = "v" }
"""
    file = tmp_path / "shop.toml"
    file.write_text(text)
    with pytest.raises(SpecError, match="two sinks in one place"):
        load(file)
    file.write_text(text.replace('host = "h", database = "lake", user = "v"', 'host = "i", database = "x", user = "v"'))
    spec = load(file)
    assert "ONE_PASSWORD=…" in unit_of(spec, file, directory_of(file, spec.name))
