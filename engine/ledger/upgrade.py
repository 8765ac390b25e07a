"""Renames the fields of ledger files that earlier versions wrote.

Version 1 used `shape` and `before_shape` for a projection, `again` for a resnapshot, and `cut` and `uncut` for splits.
Version 2 had no `binlog_off`, which a version that does not know it must not skip.
"""

from collections.abc import Mapping

from engine.ledger.records import Description
from engine.pipeline import formats

_WORDS = {
    "shape": "projection",
    "before_shape": "before_projection",
    "again": "resnapshot",
    "cut": "split",
    "uncut": "unsplit",
}
_KINDS = ("tables", "removed")
_NESTED = ("planned", "altered", "resnapshot", "split", "coverage")


def upgraded(record: Description) -> Description:
    """An epoch or a full state with this version's field names."""
    if formats.version_of(record) >= 2:
        return record
    tables: Description = {
        kind: {n: _part(part) for n, part in record[kind].items()} for kind in _KINDS if kind in record
    }
    return {**record, **tables}


def _part(part: Mapping[str, object]) -> Description:
    """A table's record, with renamed fields, including those of its plan, switch or split."""
    record: Description = {_WORDS.get(name, name): value for name, value in part.items()}
    return record | {name: _part(record[name]) for name in _NESTED if isinstance(record.get(name), dict)}
