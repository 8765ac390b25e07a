"""What becomes of an altered table: it evolves where every row keeps its values, else it is resnapshotted, or stops."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import PrivilegesMissingError, TableGoneError, TableStoppedError
from engine.decode.schema import Column, Index, Table
from engine.plan.chunks import Plan
from engine.run.tables import schema_change
from engine.run.tables.schema_change import Altered, SchemaVerdict, verdict
from engine.source.positions import Position
from engine.spec.settings import Spec, parse
from engine.sql.statement import effect_of
from engine.sql.tokens import DEFAULT, tokens

ID, V, W = Column("id", "int", nullable=False), Column("v", "int"), Column("w", "int")
TABLE = Table("d", "t", (ID, V), ("id",), indexes=(Index("PRIMARY", ("id",)),))
WIDER = replace(TABLE, columns=(ID, V, W))
PLAN = Plan("d.t", 9, 0, ("id",), "PRIMARY", "0", "9", 1.0, "even", "", 9, 1, "10", "10")
ADD = "ALTER TABLE t ADD COLUMN w INT"
AT = Position("b.000001", 99)


class Source:
    """Instead of the source's catalog: the table as it is now."""

    def __init__(self) -> None:
        self.table: Table | None = WIDER
        self.refused: dict[str, TableStoppedError] = {}


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Source:
    """What the catalog shows."""
    made = Source()
    monkeypatch.setattr(schema_change, "list_tables", lambda _: [("d", "t")] if made.table else [])
    monkeypatch.setattr(schema_change, "uncaptured_kind", lambda *_: "")
    monkeypatch.setattr(schema_change, "read_table", lambda *_, **__: made.table)
    monkeypatch.setattr(schema_change, "refused", lambda _: made.refused)
    monkeypatch.setattr(schema_change, "plan_tables", lambda *_, **__: [replace(PLAN, reason="planned again")])
    monkeypatch.setattr(schema_change, "current", lambda *_: Position("b.000009", 4))
    monkeypatch.setattr(schema_change, "describe", lambda _: None)
    return made


def spec(source: str = "") -> Spec:
    """A spec with these lines in [source]."""
    text = f'name = "p"\n[source]\nhost = "h"\nuser = "u"\ntables = ["d.*"]\n{source}\n[sink]\npath = "lake"\n'
    return parse(text, Path("/tmp/p.toml"))  # noqa: S108 - nothing is there


def judged(statement: str | None, settings: Spec | None = None, **more: Any) -> SchemaVerdict:
    """The verdict on the table after a statement."""
    alter = effect_of(tokens(statement or "", DEFAULT)).alter
    known = {"copied": True, "earlier_names": ("id", "v"), "fits": lambda *_: None, "at": AT, "alter": alter}
    altered = Altered(TABLE, PLAN, **{**known, **more})
    return verdict(object(), settings or spec(), altered, statement)


def test_a_column_that_is_added_keeps_all_rows(source: Source) -> None:
    """Whether the table is copied or not: what is to be read is read by an index that is still there."""
    for copied in (True, False):
        found = judged(ADD, copied=copied)
        assert (found.outcome, found.table, found.plan) == ("evolved", source.table, PLAN)


@pytest.mark.parametrize(
    ("statement", "more"),
    [
        ("TRUNCATE TABLE t", {}),
        ("ALTER TABLE t MODIFY v BIGINT UNSIGNED", {}),
        ("", {}),
        (ADD, {"stopped": {"error": "TableStoppedError", "message": "", "detail": "", "hint": ""}}),
        (ADD, {"later": lambda: None}),
        (None, {}),
    ],
)
def test_whatever_may_change_rows_is_resnapshotted(source: Source, statement: str | None, more: dict[str, Any]) -> None:
    """So is a table that had stopped, one that was altered again since, and one of which a resnapshot is asked for."""
    found = judged(statement, **more)
    assert (found.outcome, found.plan.reason, found.since) == ("resnapshotted", "planned again", None)
    assert found.table == source.table


def test_a_table_that_cannot_go_on_stops_with_the_reason(source: Source) -> None:
    """Gone, refused by the preflight, without a key, by setting, or when the destination cannot take its columns."""
    assert "must be resnapshotted" in judged("TRUNCATE t", spec('schema_changes = "stop"')).reason

    def unfit(*_: Table) -> None:
        raise TableStoppedError("the destination cannot")

    assert judged(ADD, fits=unfit).reason == "the destination cannot"
    source.table = replace(WIDER, key=())
    assert "has no key" in judged("ALTER TABLE t DROP PRIMARY KEY").reason
    source.refused = {"d.t": TableStoppedError("not this type")}
    assert judged(ADD).reason == "not this type"
    source.table = None
    gone = judged("DROP TABLE t")
    assert (gone.outcome, type(gone.error)) == ("stopped", TableGoneError)
    assert gone.table == TABLE, "it is as it was before"


def test_a_table_that_the_account_may_not_read_is_not_taken_for_dropped(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The catalog hides it, so it is resnapshotted after the grant. A DROP TABLE says itself that it is gone."""

    def denied(*_: object) -> None:
        raise PrivilegesMissingError("SELECT command denied")

    monkeypatch.setattr(schema_change, "check_not_hidden", denied)
    monkeypatch.setattr(schema_change, "is_hidden", lambda *_: True)
    monkeypatch.setattr(schema_change, "grant_of", lambda *_: "GRANT SELECT;")
    source.table = None
    waits = judged(ADD)
    assert (waits.outcome, waits.table) == ("stopped", TABLE)
    assert waits.refusal is not None
    record = waits.to_record(TABLE, None)
    assert record.due is not None
    assert record.stopped is not None
    assert record.stopped.hint.endswith(
        "within 30 seconds, the whole table is copied and streamed again by itself. GRANT SELECT;"
    )
    stops = judged(ADD, spec('schema_changes = "stop"')).to_record(TABLE, None)
    assert (stops.due, stops.not_due) == (None, True)
    assert stops.stopped is not None
    assert "redump" in stops.stopped.hint
    monkeypatch.setattr(schema_change, "is_hidden", lambda *_: False)
    with pytest.raises(PrivilegesMissingError):  # it lacks another privilege, which is no matter of the table
        judged(ADD)
    assert isinstance(judged("DROP TABLE t").error, TableGoneError)


def test_a_pipeline_without_a_snapshot_streams_on_behind_the_statement(source: Source) -> None:
    """Where that has no gap; else it stops, and a redump streams it from now on."""
    latest = spec('startup = "latest"')
    assert judged("TRUNCATE t", latest).since == AT
    assert judged(None, latest).since == Position("b.000009", 4)
    for more in ({"later": lambda: None}, {"at": None}):
        found = judged("TRUNCATE t", latest, **more)
        assert found.outcome == "stopped"
        assert "redump SPEC --table d.t" in found.error.hint if found.error else False
