"""Where a table is in a database, by the rule of the spec.

Names that are too long are cut, and end with a part of their digest.
"""

import hashlib
import re

from engine.decode.schema import Table
from engine.destination.database.sql_server import TablePlace

_DIGEST = 10
_NAMES = re.compile(r"\{database\}|\{table\}")


def place_of(rule: str, table: Table, own_schema: str, longest: int) -> TablePlace:
    """The place of a table. rule: `sink.database.table`. own_schema: without one. longest: bytes of a name."""
    names = {"{database}": table.database, "{table}": table.name}
    schema, _, name = (_NAMES.sub(lambda match: names[match[0]], part) for part in rule.rpartition("."))
    return TablePlace(_cut(schema, longest) or own_schema, _cut(name, longest))


def beside(place: TablePlace, word: str, owner: str, longest: int) -> TablePlace:
    """The place of a table that stands beside another one for a while.

    word: what it is. owner: pipeline and captured table, whose digest keeps the name apart from those of others.
    """
    end = f"__tm_{word}_{hashlib.sha256(owner.encode()).hexdigest()[:_DIGEST]}"
    return TablePlace(place.schema, f"{_cut(place.name, longest - len(end))}{end}")


def _cut(name: str, longest: int) -> str:
    if len(name.encode()) <= longest:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGEST]
    return f"{name.encode()[: longest - _DIGEST - 1].decode(errors='ignore')}_{digest}"
