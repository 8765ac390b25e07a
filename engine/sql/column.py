"""A column's definition in an ALTER TABLE: whether it may give rows a value, and where the column is placed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from engine.sql.reader import Reader
from engine.sql.tokens import TokenKind, UnreadableError

Place = str | Literal[True] | None
"""The column after which a column is placed; True: the first one; None: not moved, and at the end if new."""


@dataclass(frozen=True)
class Definition:
    """A column's definition."""

    filled: bool
    """Whether rows may get a value in it if it is new. Otherwise they have NULL."""
    place: Place
    primary: bool = False
    """Whether it becomes the primary key."""
    numbered: bool = False
    """Whether it is AUTO_INCREMENT. A column that becomes so gets other values for its zeros."""


_FILLED_TYPES = ("TIMESTAMP", "SERIAL")
"""Types whose new columns are filled even without a default, unless they are declared NULL."""


def read_column(reader: Reader) -> Definition:
    """The definition after a column's name, to its end.

    Raises UnreadableError for a generated column, whose values come from other columns, and for what is not known here.
    """
    token = reader.take()
    if token.kind is not TokenKind.WORD:
        raise UnreadableError("a type is expected")
    reader.accept("PRECISION", "VARYING")
    if reader.sees_sign("("):
        reader.parentheses()
    while reader.accept("UNSIGNED", "SIGNED", "ZEROFILL"):
        pass
    attributes, place = set[str](), None
    while not reader.ended and (place := _place(reader)) is None:
        attributes.add(_attribute(reader))
    filled = bool(attributes & {"filled", "primary", "numbered"}) or (
        token.value.upper() in _FILLED_TYPES and "null" not in attributes
    )
    return Definition(filled, place, "primary" in attributes, "numbered" in attributes)


def read_value(reader: Reader) -> None:
    """Move past a default: a literal with or without an introducer, a function, or an expression in parentheses.

    Raises UnreadableError for anything else.
    """
    if reader.sees_sign("("):
        reader.parentheses()
        return
    if not reader.accept_sign("-"):
        reader.accept_sign("+")
    token = reader.take()
    if token.kind not in (TokenKind.WORD, TokenKind.TEXT):
        raise UnreadableError("a default is expected")
    if token.kind is TokenKind.WORD and reader.sees_sign("("):
        reader.parentheses()
    elif token.kind is TokenKind.WORD and not reader.ended and reader.tokens[reader.at].kind is TokenKind.TEXT:
        reader.take()
    if reader.accept_sign("."):
        reader.take()


def _place(reader: Reader) -> Place:
    if reader.accept("FIRST"):
        return True
    return reader.identifier() if reader.accept("AFTER") else None


def _nothing(_: Reader) -> None:
    pass


def _key(reader: Reader) -> None:
    reader.accept("KEY")


def _option(reader: Reader) -> None:
    reader.accept_sign("=")
    reader.take()


def _comment(reader: Reader) -> None:
    if reader.take().kind is not TokenKind.TEXT:
        raise UnreadableError("a comment is expected")


def _parentheses(reader: Reader) -> None:
    reader.parentheses()


_Attribute = tuple[tuple[str, ...], Callable[[Reader], None], Literal["null", "filled", "primary", "numbered", "none"]]
_ATTRIBUTES: tuple[_Attribute, ...] = (
    (("NULL",), _nothing, "null"),
    (("DEFAULT", "NULL"), _nothing, "none"),
    (("DEFAULT",), read_value, "filled"),
    (("AUTO_INCREMENT",), _nothing, "numbered"),
    (("UNIQUE",), _key, "none"),
    (("PRIMARY", "KEY"), _nothing, "primary"),
    (("KEY",), _nothing, "primary"),
    (("NOT", "NULL"), _nothing, "filled"),
    (("ON", "UPDATE"), read_value, "filled"),
    (("CHECK",), _parentheses, "none"),
    (("COMMENT",), _comment, "none"),
    (("COLLATE",), _option, "none"),
    (("CHARSET",), _option, "none"),
    (("CHARACTER", "SET"), _option, "none"),
    (("COLUMN_FORMAT",), _option, "none"),
    (("STORAGE",), _option, "none"),
    (("SRID",), _option, "none"),
    (("ENGINE_ATTRIBUTE",), _option, "none"),
    (("VISIBLE",), _nothing, "none"),
    (("INVISIBLE",), _nothing, "none"),
)


def _attribute(reader: Reader) -> str:
    for words, rest, name in _ATTRIBUTES:
        if reader.accept_all(*words):
            rest(reader)
            return name
    raise UnreadableError("an unknown attribute of a column")
