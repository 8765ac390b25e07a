"""Decides whether and how a table can be redumped, for both the runner and the preview. `decide` is pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from engine.base.wording import shell_word
from engine.capture.chunk.fast_forward import has_mutable_key
from engine.capture.landing import MirrorReader
from engine.capture.redump_requests import Redump
from engine.decode.schema import Table
from engine.ledger.state import TableState
from engine.plan.chunks import Plan

RedumpWay = Literal["redumped", "resnapshotted", "refused", "left alone"]
REDUMPED: RedumpWay = "redumped"
"""Its parts are read while its binlog keeps streaming, and become changes of the table."""
RESNAPSHOTTED: RedumpWay = "resnapshotted"
"""A complete new snapshot replaces the mirror."""
REFUSED: RedumpWay = "refused"
LEFT_ALONE: RedumpWay = "left alone"
_MIRROR_STAYS = "its mirror stays as it is until the new copy is complete"
_NO_KEY = "it has no key, so nothing identifies its rows"


@dataclass(frozen=True)
class Decision:
    """How one table is redumped."""

    way: RedumpWay
    why: str = ""
    """The reason as a clause; "" if none is needed."""
    hint: str = ""
    """What to do instead, for a refusal."""


def decide(
    redump: Redump, table_state: TableState, table: Table, plan: Plan, defect: str = "", log_defect: str = ""
) -> Decision:
    """How to redump a table in its current state.

    defect: why its mirror cannot be read back, as a clause; "" if it can. Its parts need it: a row that only the mirror
    has is a ghost. log_defect: likewise of its change log, which only a resnapshot repairs.
    """
    if not table.key and not table_state.stopped:
        if not redump.tables:  # a redump of all tables skips healthy ones without a key
            return Decision(LEFT_ALONE, _NO_KEY)
        return Decision(REFUSED, _NO_KEY, "Give it a primary key on whole columns.")
    mutable = has_mutable_key(table, plan.key(table))
    if redump.is_whole_table:
        return _whole(table_state, defect, log_defect, mutable=mutable)
    return _part(redump, table_state, table.full_name, defect, mutable=mutable)


def defects_of(mirrors: Iterable[MirrorReader], redump: Redump) -> tuple[str, str]:
    """Why a mirror cannot be read back, and why a change log cannot, as clauses; for `decide`."""
    defects = [(one.defect(), one.log_defect() if redump.is_whole_table else "") for one in mirrors]
    mirror_defects, log_defects = zip(*defects, strict=True)
    return next(filter(None, mirror_defects), ""), next(filter(None, log_defects), "")


def _whole(table_state: TableState, defect: str, log_defect: str, *, mutable: bool) -> Decision:
    why = ""
    if table_state.stopped:
        why = f"it has stopped; {_MIRROR_STAYS}"
    elif not table_state.copied:
        why = "its snapshot is not complete yet, and begins again"
    elif defect:
        why = f"its mirror cannot be read ({defect})"
    elif log_defect:
        why = f"its change log cannot be read ({log_defect})"
    elif mutable:
        why = f"its rows can move between chunks; {_MIRROR_STAYS}"
    return Decision(RESNAPSHOTTED, why) if why else Decision(REDUMPED)


def _part(redump: Redump, table_state: TableState, name: str, defect: str, *, mutable: bool) -> Decision:
    if table_state.stopped:
        return Decision(REFUSED, "it has stopped", f"Resnapshot it: tidemark redump SPEC --table {shell_word(name)}")
    if table_state.copied and defect:
        hint = f"Redump the whole table, which resnapshots it: tidemark redump SPEC --table {shell_word(name)}"
        return Decision(REFUSED, f"its mirror cannot be read ({defect})", hint)
    if redump.ranges and mutable:
        return Decision(
            REFUSED,
            "its rows can move between ranges of its chunk key while they stay the same rows",
            "Name rows by --keys, or redump the whole table by --table.",
        )
    return Decision(REDUMPED, "" if table_state.copied else "as soon as it is copied")
