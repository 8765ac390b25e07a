"""Table projections from the spec, and their validation."""

import hashlib
import hmac
import json
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from engine.base.errors import SpecError, TableStoppedError
from engine.base.wording import shell_word
from engine.capture.projection.filter_parser import column_named, nearest, parse_where
from engine.capture.projection.table_projection import Projection
from engine.decode.schema import Table, table_from_dict
from engine.decode.types import value_type
from engine.ledger.records import Description
from engine.ledger.state import State, TableState
from engine.plan.strategy import chunk_key
from engine.source.preflight import refused
from engine.spec.globs import matches
from engine.spec.settings import ProjectionRules, Spec, mask_salt


def projection_of(spec: Spec, table: Table, key_columns: Collection[str] = ()) -> Projection:
    """The projection of a table. key_columns: the columns of its chunk key. Raises SpecError if it is invalid."""
    rules = spec.projection_rules(table.database, table.name)
    columns, masks = _kept_columns(rules, table), _masks(rules, table)
    for name in dict.fromkeys([*table.key, *key_columns]):
        if name in masks or (columns is not None and name not in columns):
            raise _identifies(table, name, masked=name in masks)
    for name in masks:
        if pa.types.is_nested(value_type(table.column(name)).arrow(table.column(name))):
            raise SpecError(f"{table.full_name}: column {name!r} has no text that could be masked.", hint="Exclude it.")
    where = parse_where(rules.where, table) if rules.where is not None else None
    salt = mask_salt(spec) if masks else None
    return Projection(
        columns, {n: a for n, a in masks.items() if columns is None or n in columns}, where, (salt or "").encode()
    )


def projection_record(spec: Spec, table: Table) -> Description | None:
    """A table's projection as the ledger keeps it, with a digest to compare; None if the spec has no rules for it."""
    rules = spec.projection_rules(table.database, table.name)
    digest = _digest(spec, rules)
    return (
        {**Projection(_kept_columns(rules, table), _masks(rules, table)).as_dict(), "rules": digest} if digest else None
    )


def _kept_columns(rules: ProjectionRules, table: Table) -> tuple[str, ...] | None:
    if rules.columns is None and rules.exclude is None:
        return None
    only = {*map(str.lower, rules.columns), *map(str.lower, table.key)} if rules.columns is not None else None
    without = set(map(str.lower, rules.exclude or ()))
    names = [column.name for column in table.columns]
    return tuple(n for n in names if (only is None or n.lower() in only) and n.lower() not in without)


def _masks(rules: ProjectionRules, table: Table) -> dict[str, str]:
    named = {name: column_named(table, name) for name in rules.mask or {}}
    return {column.name: (rules.mask or {})[name] for name, column in named.items() if column is not None}


def _identifies(table: Table, name: str, *, masked: bool) -> SpecError:
    what = "masked" if masked else "left out"
    return SpecError(
        f"{table.full_name}: column {name!r} cannot be {what}.",
        detail="It identifies rows or bounds chunks. Nothing was started.",
        hint=f"Publish it as it is (tables.{table.full_name}: columns, exclude, mask)"
        + ("" if name in table.key else ", or split the table by another column (snapshot.chunk_key)")
        + ".",
    )


def _digest(spec: Spec, rules: ProjectionRules) -> str:
    """A digest of a table's rules; empty without rules."""
    published: dict[str, Any] = {
        "columns": sorted(map(str.lower, rules.columns)) if rules.columns is not None else None,
        "exclude": sorted(map(str.lower, rules.exclude or ())),
        "mask": sorted((name.lower(), algorithm) for name, algorithm in (rules.mask or {}).items()),
        "where": rules.where,
    }
    if not any((published["columns"] is not None, published["exclude"], published["mask"], published["where"])):
        return ""
    if published["mask"] and (salt := mask_salt(spec)):
        published["salt"] = hmac.digest(salt.encode(), b"tidemark", "sha256").hex()
    return hashlib.sha256(json.dumps(published).encode()).hexdigest()[:32]


def check_rules(spec: Spec, tables: Sequence[Table]) -> None:
    """Raises SpecError for rules that match no captured table, and for columns that no matching table has."""
    for glob, rules in spec.tables.items():
        matching = [table for table in tables if matches(glob, table.database, table.name)]
        if not matching:
            raise SpecError(
                f"tables names {glob!r}, which no captured table "
                f"matches{nearest(glob, [t.full_name for t in tables])}.",
                detail="Nothing was started.",
                hint="Correct it, or remove that section.",
            )
        names = list(dict.fromkeys(column.name for table in matching for column in table.columns))
        for field in ("columns", "exclude", "mask"):
            for name in getattr(rules, field) or ():
                if not any(column_named(table, name) for table in matching):
                    raise SpecError(
                        f"tables.{glob}: {field} names column {name!r}, which does not exist{nearest(name, names)}.",
                        detail="Nothing was started.",
                        hint="Correct the name.",
                    )


def as_read(spec: Spec, table: Table) -> Table:
    """A table with its unpublished columns marked as such, if its projection is valid."""
    with suppress(SpecError, TableStoppedError):
        return projection_of(spec, table).tolerant(table)
    return table


def check_spec(spec: Spec, tables: Sequence[Table], removed_tables: Sequence[Table] = ()) -> None:
    """Raises SpecError when the spec's projections do not fit the captured tables.

    removed_tables: removed tables, for which the spec may still have rules.
    """
    check_rules(spec, [*tables, *removed_tables])
    unfit = refused([as_read(spec, table) for table in tables])
    for table in (table for table in tables if table.full_name not in unfit and spec.tables):
        key = chunk_key(table, spec.snapshot)
        projection_of(spec, table, key.names if key else ())


def check_altered(spec: Spec, before: Table, after: Table, key_columns: Collection[str]) -> None:
    """Raises TableStoppedError when an altered table lost or replaced a column that its projection needs."""
    rules = spec.projection_rules(before.database, before.name)
    named = [c.name for name in (*(rules.columns or ()), *(rules.mask or ())) if (c := column_named(before, name))]
    gone = [name for name in named if column_named(after, name) is None]
    message = f"{after.full_name}: column {gone[0]!r}, which the spec publishes or masks, is gone." if gone else ""
    try:
        projection_of(spec, after, key_columns)
    except SpecError as error:
        message = message or error.message
    if message:
        raise TableStoppedError(
            message,
            detail="The altered table cannot have the projection that the spec gives it; "
            "its published data is right up to then.",
            hint="Stop the run, correct the section tables of the spec, and resnapshot the table: tidemark redump SPEC "
            f"--table {shell_word(after.full_name)}, then run again.",
        )


def with_other_projection(spec: Spec, state: State) -> list[str]:
    """The tables whose rules differ from those in the ledger."""
    return [name for name, table in state.tables.items() if not table.stopped and has_other_rules(spec, table)]


def has_other_rules(spec: Spec, projection: TableState) -> bool:
    """Whether the spec publishes other columns or rows of a table than the ledger's."""
    table = table_from_dict(projection.table)
    rules = _digest(spec, spec.projection_rules(table.database, table.name))
    return bool(rules != (projection.projection["rules"] if projection.projection else ""))


def check_asked(names: Collection[str]) -> None:
    """Raises SpecError when tables have new rules and no command resnapshots them."""
    if names:
        raise SpecError(
            f"The spec now publishes other rows or columns of {', '.join(sorted(names)[:5])} than this pipeline has "
            "published.",
            detail="Two projections would be mixed in one table; nothing was started.",
            hint="Resnapshot them: tidemark redump SPEC "
            + " ".join(f"--table {shell_word(name)}" for name in sorted(names))
            + ", then run. What was published before stays in the change log. "
            "Or set the section tables of the spec back.",
            resnapshots=sorted(names),
        )
