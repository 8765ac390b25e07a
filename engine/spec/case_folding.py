"""A spec whose globs match the names in the catalog of its server (`globs.NameRule`)."""

from collections.abc import Mapping
from typing import TypeVar

from engine.base.errors import SpecError
from engine.spec.globs import NameRule, escaped
from engine.spec.settings import Snapshot, Spec, TableRules

V = TypeVar("V")


def spec_on(spec: Spec, rule: NameRule) -> Spec:
    """The spec for a server with this rule. Raises SpecError if two sections of it are for the same tables there."""
    if not rule.folds:
        return spec
    source = spec.source.model_copy(update={"tables": rule.globs(spec.source.tables)})
    sink = spec.sink.model_copy(update={"tables": _sections("sink.tables", spec.sink.tables, rule)})
    tables = _sections("tables", spec.tables, rule)
    alerts = spec.alerts.model_copy(update={"tables": _sections("alerts.tables", spec.alerts.tables, rule)})
    changed = {"source": source, "snapshot": _snapshot(spec.snapshot, rule), "sink": sink, "tables": tables}
    changed["alerts"] = alerts
    return spec.model_copy(update=changed)


def _snapshot(snapshot: Snapshot, rule: NameRule) -> Snapshot:
    tables, keys = _sections("snapshot.tables", snapshot.tables, rule), snapshot.chunk_key
    if rule.lower_case_table_names == 1:
        keys = _sections("snapshot.chunk_key", keys, rule)
    else:  # full names cannot say that any case is meant, globs can
        for name, column in keys.items():
            glob = rule.glob(escaped(name))
            tables[glob] = tables.get(glob, TableRules()).model_copy(update={"key": column})
        keys = {}
    return snapshot.model_copy(update={"tables": tables, "chunk_key": keys, "priority": rule.globs(snapshot.priority)})


def _sections(setting: str, sections: Mapping[str, V], rule: NameRule) -> dict[str, V]:
    by_name: dict[str, V] = {}
    written: dict[str, str] = {}
    for glob, value in sections.items():
        here = rule.glob(glob)
        if here in by_name:
            raise SpecError(
                f"{setting} has two sections for the same tables: {written[here]!r} and {glob!r}.",
                detail="The server compares names without regard to case (lower_case_table_names). Nothing was "
                "started.",
                hint="Put both into one section.",
            )
        by_name[here], written[here] = value, glob
    return by_name
