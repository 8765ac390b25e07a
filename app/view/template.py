"""A new pipeline's spec, from a form to TOML."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

_LINE = re.compile(r"[,\s]+")


@dataclass(frozen=True)
class Draft:
    """What the form asks for; everything else has a sensible default."""

    name: str = "shop"
    host: str = "127.0.0.1"
    port: int = 3306
    user: str = "tidemark"
    password_env: str = "TIDEMARK_PASSWORD"  # noqa: S105 - the name of a variable
    tables: str = "shop.*"
    startup: str = "initial"
    chunk_rows: int = 0
    path: str = "lake"
    master: str = "local[*]"


def globs(text: str) -> list[str]:
    """Globs out of lines or commas."""
    return [part for part in _LINE.split(text.strip()) if part]


def toml(draft: Draft) -> str:
    """The spec of a draft, with a word on each choice."""
    password = [f"password_env = {_text(draft.password_env)}"] if draft.password_env else []
    chunk_rows = f"chunk_rows = {draft.chunk_rows}" + ("  # 0: as many as fit 16 MiB" if not draft.chunk_rows else "")
    lines = [
        f"name = {_text(draft.name)}",
        "",
        "[source]",
        f"host = {_text(draft.host)}",
        f"port = {draft.port}",
        f"user = {_text(draft.user)}",
        *password,
        f"tables = {_list(globs(draft.tables))}",
        f"startup = {_text(draft.startup)}",
        "",
        "[snapshot]",
        chunk_rows,
        "",
        "[sink]",
        'type = "delta"',
        f"path = {_text(draft.path)}",
        "",
        "[spark]",
        f"master = {_text(draft.master)}",
    ]
    return "\n".join(lines) + "\n"


def _text(value: str) -> str:
    """A TOML basic string: JSON's escapes are a part of TOML's, but for DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _list(values: Sequence[str]) -> str:
    return "[" + ", ".join(_text(value) for value in values) + "]"
