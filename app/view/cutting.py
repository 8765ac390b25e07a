"""How far a table is cut, in words: chunks may still be planned while others are being read."""

from app.view import words
from engine.history.table_queries import Plan, Progress


def cut(plan: Plan) -> str:
    """`40 chunks`, `12 of about 400 chunks cut`, `12 chunks cut, more follow`."""
    if plan.complete:
        return _chunks(plan)
    return f"{_chunks(plan)} cut" + ("" if plan.expected_chunks > plan.chunks else ", more follow")


def follow(plan: Plan | None) -> str:
    """A sentence for the chunk map when it does not show all chunks yet; else empty."""
    return "" if plan is None or plan.complete else f"More follow: {_chunks(plan)} cut so far."


def _chunks(plan: Plan) -> str:
    if plan.expected_chunks > plan.chunks:
        return f"{plan.chunks:,} of about {words.plural(plan.expected_chunks, 'chunk')}"
    return words.plural(plan.chunks, "chunk")


def read(table: Progress) -> str:
    """`12 of 40`, `12 of about 400`; a table without a plan has none."""
    if not table.planned:
        return words.NOTHING
    about = "" if table.complete else "about "
    return f"{table.done:,} of {about}{table.expected_chunks:,}"


def state(table: Progress) -> str:
    """What the journal says; a table that was only planned waits."""
    return table.state or ("waiting" if table.planned else words.NOTHING)
