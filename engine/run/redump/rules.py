"""Whether a table can be redumped, and how: decided here alone, for the runner and for the preview. Pure."""

from dataclasses import dataclass
from typing import Literal

from engine.capture.chunk.fast_forward import moving
from engine.decode.schema import Table
from engine.ledger.state import TableState
from engine.plan.chunks import Plan
from engine.run.redump.requests import Redump

Way = Literal["beside the log", "resnapshotted", "refused", "left alone"]
BESIDE: Way = "beside the log"
"""Its parts are read while its binlog keeps streaming, and become changes of it."""
RESNAPSHOTTED: Way = "resnapshotted"
"""A new snapshot replaces the mirror when it is whole."""
REFUSED: Way = "refused"
LEFT_ALONE: Way = "left alone"
_MIRROR_STAYS = "its mirror stays as it is until the new copy is there"
_NO_KEY = "it has no key, so nothing identifies its rows"


@dataclass(frozen=True)
class Decision:
    """How one table is redumped."""

    way: Way
    why: str = ""
    """A clause in plain words; empty where nothing needs to be explained."""
    hint: str = ""
    """What to do instead; of a refusal."""


def decide(redump: Redump, known: TableState, table: Table, plan: Plan) -> Decision:
    """How a table is redumped in the state that it is in now."""
    if not table.key and not known.stopped:
        if not redump.tables:  # all tables are asked for, and this one is well
            return Decision(LEFT_ALONE, _NO_KEY)
        return Decision(REFUSED, _NO_KEY, "Give it a primary key.")
    moves = moving(table, plan.key(table))
    return _whole(known, moves=moves) if redump.whole else _part(redump, known, table.full_name, moves=moves)


def _whole(known: TableState, *, moves: bool) -> Decision:
    why = ""
    if known.stopped:
        why = f"it has stopped; {_MIRROR_STAYS}"
    elif not known.copied:
        why = "its snapshot is not complete yet, and begins again"
    elif moves:
        why = f"its rows can move between chunks; {_MIRROR_STAYS}"
    return Decision(RESNAPSHOTTED, why) if why else Decision(BESIDE)


def _part(redump: Redump, known: TableState, name: str, *, moves: bool) -> Decision:
    if known.stopped:
        return Decision(REFUSED, "it has stopped", f"Resnapshot it: tidemark redump SPEC --table {name}")
    if redump.ranges and moves:
        return Decision(
            REFUSED,
            "its rows can move between ranges of its chunk key while they stay the same rows",
            "Name rows by --keys, or redump the whole table by --table.",
        )
    return Decision(BESIDE, "" if known.copied else "as soon as it is copied")
