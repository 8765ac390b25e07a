"""The kind of a new pipeline's destination."""

from pathlib import Path
from typing import get_args

import pytest

from app.wizard.view import destination_kind, summary
from app.wizard.view.destination_kind import (
    DELTA,
    FORMATS,
    KEEPS,
    KINDS,
    PARQUET,
    catalog_of,
    has_mirrors,
    iceberg_of,
    layout,
    with_catalog,
    with_iceberg,
    with_kind,
)
from engine.spec.sink_settings import OF_MIRRORS, Sink
from tests.unit.app.support import draft

MIRRORED = {
    "catalog": {"type": "rest", "uri": "https://c"},
    "mirror": "merge_on_read",
    "max_write_amplification": 5.0,
    "max_merge_delay_s": 60.0,
    "tables": {"shop.orders": {"mirror": "copy_on_write"}},
    "files_retention": "3d",
    "formats": ["delta", "iceberg"],
    "iceberg": "v2",
    "max_versions": 500,
    "changes_retention": "30d",
}


PLACES = {
    **dict.fromkeys(("delta", "parquet", "python", "spark"), ("sink", "path")),
    "kafka": ("sink", "kafka", "servers"),
    **dict.fromkeys(("postgresql", "mysql"), ("sink", "database", "host")),
    "duckdb": ("sink", "database", "file"),
}


def test_each_kind_of_the_spec_has_a_label_and_a_layout() -> None:
    """A kind that is added later too."""
    assert set(KINDS) == set(KEEPS) == set(get_args(Sink.model_fields["type"].annotation))
    for kind in KINDS:
        chosen = with_kind(draft(), kind)
        assert layout(chosen)
        assert has_mirrors(chosen) == Sink(type=kind, path=Path("lake")).has_mirrors
    assert has_mirrors(draft())


def test_the_settings_of_mirrors_leave_with_them() -> None:
    """The spec would be refused with them; what both kinds have stays."""
    assert set(MIRRORED) == set(OF_MIRRORS)
    before = draft().put("sink", value={**draft().get("sink"), **MIRRORED, "maintenance": False})
    after = with_kind(before, PARQUET)
    assert set(after.get("sink")) == {"type", "path", "maintenance"}
    assert with_kind(before, DELTA).get("sink", "mirror") == "merge_on_read"


@pytest.mark.parametrize("version", FORMATS)
def test_tables_can_be_iceberg_tables_too(version: str) -> None:
    """The spec has the choice, and nothing that is the default; layout and summary show it."""
    draft_ = with_iceberg(draft(), version)
    assert iceberg_of(draft_) == version
    sink = Sink(**{**draft_.get("sink"), "path": Path("lake")})
    assert sink.iceberg_version("d", "t") == {"": None, "v2": 2, "v3": 3}[version]
    assert ("__iceberg" in layout(draft_)) == bool(version)
    assert ("Iceberg" in dict(summary.facts(draft_))["Destination"][0]) == bool(version)
    assert with_iceberg(draft_, "").get("sink") == draft().get("sink")


@pytest.mark.parametrize("kind", KINDS)
def test_the_summary_names_the_kind(kind: str) -> None:
    """And says what happens with changes."""
    chosen = with_kind(draft(), kind)
    chosen = chosen.put(*PLACES[kind], value="over-there")
    assert dict(summary.facts(chosen))["Destination"] == [f"{KINDS[kind]} in over-there"]
    assert any("mirror" in line for line in summary.happens(chosen)) == has_mirrors(chosen)
    assert "mirrors" in destination_kind.WITHOUT_MIRRORS


def test_a_catalog_goes_with_the_iceberg_tables() -> None:
    """And another type has none of the settings of the one before."""
    draft_ = with_catalog(with_iceberg(draft(), "v3"), "rest").put("sink", "catalog", "uri", value="https://c")
    assert catalog_of(draft_) == "rest"
    assert with_catalog(draft_, "sql").get("sink", "catalog") == {"type": "sql"}
    assert catalog_of(with_catalog(draft_, "")) == ""
    assert with_iceberg(draft_, "").get("sink") == draft().get("sink")
