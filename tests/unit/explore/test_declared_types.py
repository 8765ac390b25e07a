"""What columns become in databases, before a run."""

from pathlib import Path

from engine.decode.schema import Column, Table
from engine.explore.declared_types import declared_types
from engine.spec.settings import load

SPEC = """
name = "shop"
source = { host = "h", user = "u", tables = ["d.*"] }
sink = { path = "lake" }
[tables."d.t"]
exclude = ["secret"]
[[sinks]]
name = "reports"
type = "postgresql"
database = { host = "h", database = "b", user = "u", table = "lake.{database}_{table}" }
[[sinks]]
name = "other"
type = "mysql"
database = { host = "h", database = "b", user = "u" }
"""
COLUMNS = (
    Column("id", "bigint", nullable=False, unsigned=True),
    Column("at", "datetime", fraction=3),
    Column("doc", "json"),
    Column("secret", "varchar", length=40, charset="utf8mb4"),
)


def test_each_database_has_its_types(tmp_path: Path) -> None:
    """Of the published columns, in the places that the rules give."""
    (tmp_path / "shop.toml").write_text(SPEC)
    types = declared_types(load(tmp_path / "shop.toml"), [Table("d", "t", COLUMNS, ("id",))])
    assert [(one.sink, one.place, one.column, one.source, one.declared) for one in types] == [
        ("reports", "lake.d_t", "id", "bigint", "numeric(20,0)"),
        ("reports", "lake.d_t", "at", "datetime", "timestamp"),
        ("reports", "lake.d_t", "doc", "json", "json"),
        ("other", "d.t", "id", "bigint", "decimal(20,0)"),
        ("other", "d.t", "at", "datetime", "datetime(3)"),
        ("other", "d.t", "doc", "json", "json"),
    ]
