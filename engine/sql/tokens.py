"""The tokens of a statement, as the server that logged it read them.

Where a literal ends, and what is a name, depends on the session ("String Literals", "Schema Object Names" and
"Comments", MySQL manual):

    ANSI_QUOTES             double quotes enclose a name, not a text; a backslash in it is a plain character
    NO_BACKSLASH_ESCAPES    a backslash in a text is a plain character

and on the server: `/*M! … */` is code to MariaDB, and a plain comment to MySQL.

A comment that only some servers execute is code. Both servers log it as a plain comment if they did not execute it (`/*
99999` in place of `/*!99999`), so one that is left in the binlog was executed.

A no-break space is a blank to the server in some character sets, and part of a name in others: a statement with one is
not read.

A statement is read to its end or not at all. Nothing is concluded from a part of it.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cache

_ANSI_QUOTES, _NO_BACKSLASH_ESCAPES = 1 << 2, 1 << 20


class UnreadableError(Exception):
    """A statement is not read to its end: a quote is not closed, or a form of it is not known here."""


@dataclass(frozen=True)
class Modes:
    """The settings of the session that decide where a token ends, and the server."""

    ansi_quotes: bool = False
    no_backslash_escapes: bool = False
    mariadb: bool = True

    @staticmethod
    def of(sql_mode: int, *, mariadb: bool) -> "Modes":
        """From the bits that a QUERY event carries; both servers use the same ones."""
        return Modes(bool(sql_mode & _ANSI_QUOTES), bool(sql_mode & _NO_BACKSLASH_ESCAPES), mariadb)


DEFAULT = Modes()


class TokenKind(Enum):
    """What a token is."""

    WORD = "word"
    """A keyword, a name without quotes, or a number."""
    NAME = "name"
    """A name in quotes."""
    TEXT = "text"
    SIGN = "sign"


@dataclass(frozen=True, slots=True)
class Token:
    """A token.

    value: without quotes; of a text, with its escapes. spaced: whether a blank or a comment comes before it.
    """

    kind: TokenKind
    value: str
    spaced: bool = False

    def is_word(self, *words: str) -> bool:
        """Whether it is one of these keywords, given in upper case."""
        return self.kind is TokenKind.WORD and self.value.isascii() and self.value.upper() in words

    def is_sign(self, sign: str) -> bool:
        """Whether it is this sign."""
        return self.kind is TokenKind.SIGN and self.value == sign


def tokens(statement: str, modes: Modes) -> tuple[Token, ...]:
    """All tokens of a statement, without a final semicolon.

    Raises UnreadableError if a quote or a comment is not closed.
    """
    result = tuple(_tokens(statement, modes))
    return result[:-1] if result and result[-1].is_sign(";") else result


def rewritten(tokens: tuple[Token, ...]) -> str:
    """A statement with these tokens that means the same under the default modes, without comments."""
    parts: list[str] = []
    for n, token in enumerate(tokens):
        one_with_last = n > 0 and (
            tokens[n - 1].kind is token.kind is not TokenKind.SIGN or _begins_comment(tokens[n - 1], token)
        )
        parts += [" " if token.spaced or one_with_last else "", _WRITTEN[token.kind](token.value)]
    return "".join(parts).lstrip()


def _begins_comment(last: Token, token: Token) -> bool:
    return last.is_sign("-") and token.is_sign("-")


def _tokens(statement: str, modes: Modes) -> Iterator[Token]:
    pattern, at, executed, spaced = _pattern(modes), 0, 0, False
    while at < len(statement):
        match = pattern.match(statement, at)
        if match is None:
            raise UnreadableError(f"a quote or a comment is not closed: {statement[at : at + 20]}")
        at = match.end()
        kind, text = str(match.lastgroup), match[0]
        executed += kind == "code"
        ends = kind == "end" and executed > 0
        executed -= ends
        if kind in ("blank", "code") or ends:
            spaced = True
            continue
        for token_kind, value in _of_kind(kind, text, modes):
            yield Token(token_kind, value, spaced)
            spaced = False
    if executed:
        raise UnreadableError("a comment is not closed")


def _of_kind(kind: str, text: str, modes: Modes) -> tuple[tuple[TokenKind, str], ...]:
    """A match as tokens; `*/` outside of a comment is two signs."""
    if kind == "end":
        return (TokenKind.SIGN, "*"), (TokenKind.SIGN, "/")
    if kind == "text":
        return ((TokenKind.TEXT, _plain(text, modes)),)
    if kind == "name":
        return ((TokenKind.NAME, text[1:-1].replace(text[0] * 2, text[0])),)
    return ((TokenKind(kind), text),)


@cache
def _pattern(modes: Modes) -> re.Pattern[str]:
    inside = r"(?:[^{0}]|{0}{0})*" if modes.no_backslash_escapes else r"(?:[^{0}\\]|\\.|{0}{0})*"
    text = f"'{inside.format(chr(39))}'"
    name = r"`(?:[^`]|``)+`"
    if modes.ansi_quotes:
        name += r'|"(?:[^"]|"")+"'
    else:
        text += f'|"{inside.format(chr(34))}"'
    code = "M?!" if modes.mariadb else "!"
    return re.compile(
        rf"""(?P<blank>[ \t\n\v\f\r\0]+ | \#[^\n]* | --(?=[\0-\x20]|\Z)[^\n]* | /\*(?!{code}).*?\*/)
        | (?P<code>/\*{code}(?:\d{{5,6}})?) | (?P<end>\*/) | (?P<text>{text}) | (?P<name>{name})
        | (?P<word>[\w$\x80-\x9f\xa1-\U0010ffff]+) | (?P<sign>(?!/\*)[^'"`\xa0])""",
        re.DOTALL | re.VERBOSE,
    )


def _plain(text: str, modes: Modes) -> str:
    """The inside of a text, with backslash escapes and without doubled quotes."""
    inside = text[1:-1].replace(text[0] * 2, text[0])
    return inside.replace("\\", "\\\\") if modes.no_backslash_escapes else inside


def _text(value: str) -> str:
    """A text with backslash escapes, in quotes."""
    return "'" + re.sub(r"\\.|'", lambda match: "''" if match[0] == "'" else match[0], value, flags=re.DOTALL) + "'"


def _name(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


_WRITTEN: dict[TokenKind, Callable[[str], str]] = {
    TokenKind.WORD: str,
    TokenKind.SIGN: str,
    TokenKind.TEXT: _text,
    TokenKind.NAME: _name,
}
