"""Which tables a statement logged as text writes to directly, and which routines it may call. Pure; sqlglot parses.

`run.tables.statement_reach` asks the catalog what triggers, foreign keys, views and routines do from there. A table too
many costs a resnapshot, a table too few loses rows. So whatever is not certainly understood is `is_unknown`, which
means every table:

* text that is not text in its character set;
* a verb, or a form of one, that is not recognised here, and whatever follows MariaDB's `SET STATEMENT … FOR`.

An INSERT, REPLACE or LOAD writes only to its target. For an UPDATE or DELETE, every table that it names counts. Any
name before a parenthesis may be a stored function.
"""

import logging
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from engine.decode.query_event import REPLACED
from engine.source.programs import FoldedName

_VERB = re.compile(
    r"(?i)^(INSERT|REPLACE|UPDATE|DELETE)\s+((?:LOW_PRIORITY|HIGH_PRIORITY|DELAYED|QUICK|IGNORE)\s+)*", re.DOTALL
)
_MODIFIERS = {"low_priority", "high_priority", "delayed", "quick", "ignore"}
_WORD = re.compile(r"`(?:[^`]|``)+`|[\w$]+")
_CALLED = re.compile(r"""(`(?:[^`]|``)+`|"(?:[^"]|"")+"|[\w$]+)\s*\(""")
_CALLS = re.compile(r"(?i)CALL\s+(?:(?:`(?:[^`]|``)+`|[\w$]+)\s*\.\s*)?(`(?:[^`]|``)+`|[\w$]+)")


@dataclass(frozen=True)
class WrittenTables:
    """What a statement writes to."""

    tables: tuple[FoldedName, ...] = ()
    """Tables that it writes to directly."""
    routines: tuple[str, ...] = ()
    """Casefolded names of routines that it may call."""
    is_unknown: bool = False
    """True if neither is known."""

    def __or__(self, other: "WrittenTables") -> "WrittenTables":
        """What both statements write to."""
        return WrittenTables(
            tuple(sorted({*self.tables, *other.tables})),
            tuple(sorted({*self.routines, *other.routines})),
            self.is_unknown or other.is_unknown,
        )


UNKNOWN = WrittenTables(is_unknown=True)


def written_by(statement: str, database: str) -> WrittenTables:
    """What a statement writes to. It is in the default modes and without comments. database: its default database."""
    logging.getLogger("sqlglot").setLevel(logging.CRITICAL)  # it logs what it cannot parse, instead of raising
    if REPLACED in statement:
        return UNKNOWN
    try:
        tables = _tables(statement, database.casefold())
    except sqlglot.errors.SqlglotError:
        return UNKNOWN
    if tables is None:
        return UNKNOWN
    return WrittenTables(tuple(sorted(tables)), tuple(sorted(_called_routines(statement))))


def words_of(text: str) -> frozenset[str]:
    """Every word of a routine's text and every name in backticks, casefolded.

    Those in literals and comments are included.
    """
    return frozenset(_bare(match[0]) for match in _WORD.finditer(text)) | {
        word.casefold() for word in re.findall(r"[\w$]+", text)
    }


def _tables(statement: str, database: str) -> set[FoldedName] | None:
    verb = (re.match(r"\w+", statement) or [""])[0].upper()
    if verb in ("CALL", "DO", "SELECT", "CREATE"):
        return set()  # they write only through routines; a table that is created is a captured one by chance only
    if verb == "LOAD":
        return _load_target(sqlglot.tokenize(statement, dialect="mysql"), database)
    plain = _VERB.sub(lambda match: ("INSERT" if match[1].upper() == "REPLACE" else match[1]) + " ", statement)
    statements = sqlglot.parse(plain, dialect="mysql")
    if len(statements) != 1:
        return None
    if isinstance(statements[0], exp.Insert):
        target = statements[0].this
        targets = [target.this if isinstance(target, exp.Schema) else target]
    elif isinstance(statements[0], exp.Update | exp.Delete):
        targets = list(statements[0].find_all(exp.Table))
    else:
        return None
    return _names(targets, database)


def _names(targets: list[Any], database: str) -> set[FoldedName] | None:
    names: set[FoldedName] = set()
    for table in targets:
        if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier) or table.catalog:
            return None
        if table.name.casefold() in _MODIFIERS:
            return None
        names.add((table.db.casefold() or database, table.name.casefold()))
    return names or None


def _load_target(tokens: list[Token], database: str) -> set[FoldedName] | None:
    """The target of LOAD DATA … INTO TABLE, which sqlglot does not parse."""
    places = [n for n, (a, b) in enumerate(pairwise(tokens)) if (a.text.upper(), b.text.upper()) == ("INTO", "TABLE")]
    if len(places) != 1:
        return None
    after = tokens[places[0] + 2 : places[0] + 5]
    if not after or after[0].token_type == TokenType.STRING:
        return None
    if len(after) == 3 and after[1].token_type == TokenType.DOT:
        return {(after[0].text.casefold(), after[2].text.casefold())}
    return {(database, after[0].text.casefold())}


def _called_routines(statement: str) -> set[str]:
    """The names before a parenthesis, even inside a literal, and what CALL calls, with or without parentheses."""
    routines = {_bare(match[1]) for match in _CALLED.finditer(statement)}
    if match := _CALLS.match(statement):
        routines.add(_bare(match[1]))
    return routines


def _bare(name: str) -> str:
    return (name[1:-1].replace(name[0] * 2, name[0]) if name[0] in '`"' else name).casefold()
