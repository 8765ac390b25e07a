"""Reads a statement's tokens from left to right."""

from engine.sql.tokens import Token, TokenKind, UnreadableError

StatementName = tuple[str, str]
"""Database and name, as the statement writes them; the database is empty for the session's own."""


class Reader:
    """A place among tokens. `at` moves forward only."""

    def __init__(self, tokens: tuple[Token, ...]) -> None:
        self.tokens = tokens
        self.at = 0

    @property
    def ended(self) -> bool:
        return self.at >= len(self.tokens)

    def sees(self, *words: str, ahead: int = 0) -> bool:
        """Whether the next keyword is one of these."""
        place = self.at + ahead
        return place < len(self.tokens) and self.tokens[place].is_word(*words)

    def sees_sign(self, sign: str) -> bool:
        """Whether the next token is this sign."""
        return not self.ended and self.tokens[self.at].is_sign(sign)

    def take(self) -> Token:
        """The next token. Raises UnreadableError at the end."""
        if self.ended:
            raise UnreadableError("the statement ends early")
        self.at += 1
        return self.tokens[self.at - 1]

    def accept(self, *words: str) -> bool:
        """Move past the next keyword if it is one of these."""
        matches = self.sees(*words)
        self.at += matches
        return matches

    def require(self, *words: str) -> None:
        """Move past the next keyword. Raises UnreadableError if it is none of these."""
        if not self.accept(*words):
            raise UnreadableError(f"{' or '.join(words)} is expected")

    def accept_sign(self, sign: str) -> bool:
        """Move past the next token if it is this sign."""
        matches = self.sees_sign(sign)
        self.at += matches
        return matches

    def accept_all(self, *words: str) -> bool:
        """Move past these keywords if they come next, all of them."""
        matches = all(self.sees(word, ahead=n) for n, word in enumerate(words))
        self.at += len(words) * matches
        return matches

    def accept_if_exists(self) -> bool:
        """Move past IF EXISTS or IF NOT EXISTS."""
        return self.accept_all("IF", "EXISTS") or self.accept_all("IF", "NOT", "EXISTS")

    def accept_wait(self) -> None:
        """Move past MariaDB's WAIT n or NOWAIT."""
        if self.accept("WAIT"):
            self.take()
        else:
            self.accept("NOWAIT")

    def identifier(self) -> str:
        """The next token as a name. Raises UnreadableError if it cannot be one."""
        token = self.take()
        if token.kind not in (TokenKind.WORD, TokenKind.NAME):
            raise UnreadableError(f"a name is expected, not {token.value!r}")
        return token.value.rstrip("\0")  # MySQL writes one after a database's name that it changed to lower case

    def name(self) -> StatementName:
        """A table's name with or without its database. Raises UnreadableError if none comes next."""
        self.accept_sign(".")  # ODBC writes `.table`
        first = self.identifier()
        return (first, self.identifier()) if self.accept_sign(".") else ("", first)

    def parentheses(self) -> tuple[Token, ...]:
        """What the next pair of parentheses encloses. Raises UnreadableError if there is none, or it is not closed."""
        if not self.accept_sign("("):
            raise UnreadableError("a parenthesis is expected")
        depth, first = 1, self.at
        while depth:
            token = self.take()
            depth += token.is_sign("(") - token.is_sign(")")
        return self.tokens[first : self.at - 1]

    def require_end(self) -> None:
        """Raises UnreadableError unless all tokens were read."""
        if not self.ended:
            raise UnreadableError(f"the statement continues after its end: {self.tokens[self.at].value!r}")


def split_at_commas(tokens: tuple[Token, ...]) -> list[tuple[Token, ...]]:
    """The parts between commas that no parentheses enclose."""
    depth, parts, first = 0, list[tuple[Token, ...]](), 0
    for n, token in enumerate(tokens):
        depth += token.is_sign("(") - token.is_sign(")")
        if token.is_sign(",") and not depth:
            parts.append(tokens[first:n])
            first = n + 1
    return [*parts, tokens[first:]]
