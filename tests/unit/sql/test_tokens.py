"""Where tokens end, by the modes of the session."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.sql.tokens import DEFAULT, Modes, Token, TokenKind, UnreadableError, rewritten, tokens

ANSI, PLAIN = Modes(ansi_quotes=True), Modes(no_backslash_escapes=True)
PIECES = st.sampled_from(
    [
        "a",
        "1",
        "'",
        '"',
        "`",
        "\\",
        "''",
        '""',
        "``",
        "\\'",
        "/*",
        "*/",
        "/*!",
        "--",
        "-- ",
        "#",
        "\n",
        " ",
        ".",
        ",",
        "é",
    ]
)


def values(statement: str, modes: Modes = DEFAULT) -> list[str]:
    """The values of a statement's tokens."""
    return [token.value for token in tokens(statement, modes)]


def test_a_backslash_ends_no_text_or_it_does() -> None:
    """By NO_BACKSLASH_ESCAPES."""
    statement = r"COMMENT 'C:\dir\', COMMENT '# of items', DROP a"
    assert values(statement, PLAIN)[-3:] == [",", "DROP", "a"]
    assert values(statement)[:2] == ["COMMENT", r"C:\dir\', COMMENT "]


def test_double_quotes_enclose_a_text_or_a_name() -> None:
    """By ANSI_QUOTES. A doubled quote is one."""
    assert tokens('"we""ird"', ANSI) == (Token(TokenKind.NAME, 'we"ird'),)
    assert tokens('"we""ird"', DEFAULT) == (Token(TokenKind.TEXT, 'we"ird'),)
    assert values("`we``ird` . 'it''s'") == ["we`ird", ".", "it's"]


def test_comments_are_left_out_and_executed_ones_are_code() -> None:
    """Two hyphens begin a comment only before a blank."""
    assert values("a /* b */ c -- d\n e # f\n--1 /*!50100 g */ /*M!100100 h*/;") == [*"ace--1gh"]
    assert values("a /*M!100100 b */", Modes(mariadb=False)) == ["a"]
    assert values("'# no' `-- no` \"/* no\"") == ["# no", "-- no", "/* no"]


@pytest.mark.parametrize("statement", ["'open", "`open", '"open', "/* open", "/*! open", "``"])
def test_what_does_not_end_is_unreadable(statement: str) -> None:
    """Nothing is concluded from a part of a statement."""
    with pytest.raises(UnreadableError):
        tokens(statement, DEFAULT)


@pytest.mark.parametrize("modes", [DEFAULT, ANSI, PLAIN, Modes(ansi_quotes=True, no_backslash_escapes=True)])
@given(pieces=st.lists(PIECES, max_size=12))
def test_a_rewritten_statement_means_the_same_under_the_default_modes(modes: Modes, pieces: list[str]) -> None:
    """So one parser that knows only those reads them all."""
    try:
        found = tokens("".join(pieces), modes)
    except UnreadableError:
        return
    again = tokens(rewritten(found), DEFAULT)
    assert [(t.kind, t.value) for t in again] == [(t.kind, t.value) for t in found]
