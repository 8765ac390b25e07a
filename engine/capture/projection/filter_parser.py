"""Parses the text of a row filter into a `Condition`, and checks that its literals fit their columns.

Pure; sqlglot parses.

The filter language is limited to what has the same meaning on every server and in Arrow: columns compared with
literals. A literal must be a value of the column's own type, so no conversion has to be imitated.
"""

import difflib
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
import sqlglot
from sqlglot import exp

from engine.base.errors import SpecError
from engine.capture.projection.row_filter import Among, Compare, Condition, Every, IsNull, Not, Some
from engine.decode.schema import Column, Table
from engine.decode.types import value_type

ALLOWED_SYNTAX = (
    "Allowed are comparisons of a column with a literal (= != <> < <= > >=), IN, NOT IN, BETWEEN, IS NULL and IS NOT "
    "NULL, joined by AND, OR, NOT and parentheses."
)
_OPERATORS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_TEXTS = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext")
_UNORDERED = ("enum", "set", "time", "json", "uuid", "inet4", "inet6")
"""Types that arrive as texts, but are not ordered as texts."""
_FIRST_YEAR, _LAST_YEAR = 1901, 2155
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d:\d\d(?:\.\d{1,6})?)?")


class _UnfitError(Exception):
    """The reason why a filter cannot be used."""


def parse_where(text: str, table: Table) -> Condition:
    """Parse a table's filter.

    Raises SpecError if it is not understood, names an unknown column, or a literal does not fit.
    """
    try:
        parsed = sqlglot.condition(text, dialect="mysql")
    except (sqlglot.errors.SqlglotError, RecursionError):
        raise _refusal(table, text, "it is not a condition in SQL") from None
    if any(node.comments for node in parsed.walk()):
        raise _refusal(table, text, "it contains a comment")
    try:
        return _condition(parsed, table)
    except _UnfitError as error:
        raise _refusal(table, text, str(error)) from None


def column_named(table: Table, name: str) -> Column | None:
    """A column by name, ignoring case as the servers do."""
    exact = [column for column in table.columns if column.name == name]
    alike = [column for column in table.columns if column.name.lower() == name.lower()]
    return next(iter(exact or alike), None)


def nearest(name: str, names: Sequence[str]) -> str:
    """A hint that suggests the most similar name."""
    matches = difflib.get_close_matches(name, names, 1, 0.0)
    return f"; the nearest is {matches[0]!r}" if matches else ""


def _refusal(table: Table, text: str, why: str) -> SpecError:
    return SpecError(
        f"The filter of {table.full_name} cannot be used: {why}. Filter: {text}",
        detail="Nothing is guessed: which rows are published must be the same for rows that are read and for changes.",
        hint=ALLOWED_SYNTAX,
    )


def _condition(node: exp.Expr, table: Table) -> Condition:
    node = node.unnest()
    if isinstance(node, exp.And | exp.Or):
        parts = tuple(_condition(part, table) for part in node.flatten())
        return Every(parts) if isinstance(node, exp.And) else Some(parts)
    if isinstance(node, exp.Not):
        return Not(_condition(node.this, table))
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
        return IsNull(_column(node.this, table).name)
    if isinstance(node, exp.Between) and not node.args.get("symmetric"):
        column = _column(node.this, table)
        low, high = (_value(column, node.args[end], ordered=True) for end in ("low", "high"))
        return Every((Compare(column.name, ">=", low), Compare(column.name, "<=", high)))
    if isinstance(node, exp.In):
        return _among(node, table)
    if type(node) in _OPERATORS:
        return _comparison(node, _OPERATORS[type(node)], table)
    raise _UnfitError(f"{_sql(node)} is not understood")


def _comparison(node: exp.Expr, operator: str, table: Table) -> Condition:
    left, right = node.this.unnest(), node.expression.unnest()
    if not isinstance(left, exp.Column) and (_is_literal(left) or isinstance(right, exp.Column)):
        left, right, operator = right, left, _MIRRORED.get(operator, operator)
    column = _column(left, table)
    return Compare(column.name, operator, _value(column, right, ordered=operator not in ("=", "!=")))


def _is_literal(node: exp.Expr) -> bool:
    return isinstance(node.this if isinstance(node, exp.Neg) else node, exp.Literal | exp.Boolean | exp.HexString)


def _among(node: exp.In, table: Table) -> Condition:
    if not node.expressions or any(value for name, value in node.args.items() if name not in ("this", "expressions")):
        raise _UnfitError(f"{_sql(node)} is not a list of literals")
    column = _column(node.this, table)
    values = tuple(_value(column, literal, ordered=False) for literal in node.expressions)
    if pa.types.is_floating(value_type(column).arrow(column)):
        return Some(tuple(Compare(column.name, "=", value) for value in values))
    return Among(column.name, values)


def _column(node: exp.Expr, table: Table) -> Column:
    node = node.unnest()
    if not isinstance(node, exp.Column) or node.table:
        raise _UnfitError(f"{_sql(node)} is not the plain name of a column")
    column = column_named(table, node.name)
    if column is None:
        raise _UnfitError(f"there is no column {node.name!r}{nearest(node.name, [c.name for c in table.columns])}")
    return column


def _value(column: Column, node: exp.Expr, *, ordered: bool) -> Any:
    """The literal as a value of the column's Arrow type.

    Raises _UnfitError if it does not fit. ordered: for <, <=, > and >=.
    """
    node, wanted = node.unnest(), value_type(column).arrow(column)
    boolean = pa.types.is_boolean(wanted)
    if ordered and (column.type in _UNORDERED or boolean or pa.types.is_nested(wanted)):
        raise _UnfitError(f"{column.name!r} is {column.type.upper()}, which is compared with = != IN alone")
    if isinstance(node, exp.Null):
        raise _UnfitError("nothing is equal to NULL; say IS NULL or IS NOT NULL")
    value = None
    if isinstance(node, exp.Boolean):
        value = node.this if boolean else int(node.this) if pa.types.is_integer(wanted) else None
    elif isinstance(node, exp.HexString):
        value = _binary(column, node.name) if pa.types.is_binary(wanted) else None
    elif isinstance(node, exp.Literal) and node.is_string:
        value = _text(column, node.name, wanted)
    elif isinstance(node.this if isinstance(node, exp.Neg) else node, exp.Literal):
        with suppress(InvalidOperation):
            value = _number(Decimal(node.sql("mysql").replace(" ", "")), wanted)
        if column.type == "year" and value is not None and value != 0 and not _FIRST_YEAR <= value <= _LAST_YEAR:
            raise _UnfitError(f"{_sql(node)} is no YEAR; write it with four digits")
    if value is None:
        raise _UnfitError(f"{_sql(node)} is not a value of {column.name!r} ({column.type.upper()}{_example(wanted)})")
    return value


def _binary(column: Column, digits: str) -> bytes | None:
    value = bytes.fromhex(digits.zfill(len(digits) + len(digits) % 2))
    return value if column.type != "bit" or len(value) == (column.precision + 7) // 8 else None


def _text(column: Column, text: str, expectation: pa.DataType) -> Any:
    if pa.types.is_string(expectation):
        _require_labels(column, text)
        return text if column.type in (*_TEXTS, *_UNORDERED) else None
    with suppress(ValueError):
        if pa.types.is_date(expectation) and len(text) == len("2024-01-31"):
            return date.fromisoformat(text)
        if pa.types.is_timestamp(expectation) and _MOMENT.fullmatch(text):
            return datetime.fromisoformat(text).replace(tzinfo=UTC if expectation.tz else None)
    return None


def _require_labels(column: Column, text: str) -> None:
    """Raises _UnfitError for what an ENUM or SET cannot contain, such as a label in other letters."""
    members = text.split(",") if column.type == "set" else [text]
    unknown = [one for one in members if one and one not in column.labels]
    if column.labels and unknown:
        raise _UnfitError(f"{unknown[0]!r} is not a label of {column.name!r}{nearest(unknown[0], column.labels)}")


def _number(number: Decimal, expectation: pa.DataType) -> Any:
    if pa.types.is_floating(expectation):
        return float(number)
    if pa.types.is_boolean(expectation):
        return bool(number) if number in (0, 1) else None
    if pa.types.is_integer(expectation):
        end = 2 ** (expectation.bit_width - 1)
        whole = number == number.to_integral_value() and -end <= number < end
        return int(number) if whole else None
    if pa.types.is_decimal(expectation):
        sign, digits, exponent = number.normalize().as_tuple()
        assert isinstance(exponent, int)
        fits = -exponent <= expectation.scale and len(digits) + exponent <= expectation.precision - expectation.scale
        return Decimal((sign, digits, exponent)) if fits else None
    return None


def _example(expectation: pa.DataType) -> str:
    if pa.types.is_timestamp(expectation):
        return ", such as '2024-01-31 12:00:00'" + (" in UTC" if expectation.tz else "")
    if pa.types.is_date(expectation):
        return ", such as '2024-01-31'"
    if pa.types.is_binary(expectation):
        return ", such as x'00ff'"
    return ", with IS NULL alone" if pa.types.is_nested(expectation) else ""


def _sql(node: exp.Expr) -> str:
    return node.sql("mysql")
