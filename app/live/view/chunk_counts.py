"""How many chunks of a table are planned so far. Splitting is lazy: chunks are planned while others are read."""

from collections.abc import Iterable, Sequence

from app.common.view import words
from app.common.view.status_style import who_acts
from app.live.view.lineage import listed
from engine.history.chunk_splits import ChunkSplit
from engine.history.table_queries import NewestPlan, TableProgress
from engine.pipeline.state_words import table_state


def planned_chunks(plan: NewestPlan) -> str:
    """`40 chunks`, `12 of about 400 chunks planned`, `12 chunks planned, more follow`."""
    if plan.complete:
        return _chunks(plan)
    return f"{_chunks(plan)} planned" + ("" if plan.expected_chunks > plan.chunks else ", more follow")


def more_note(plan: NewestPlan | None) -> str:
    """A note for the chunk map while it does not have all chunks; else empty."""
    return "" if plan is None or plan.complete else f"More follow: {_chunks(plan)} planned so far."


def changed_note(plan: NewestPlan | None, splits: Sequence[ChunkSplit]) -> str:
    """Why a completely planned table has more or fewer chunks than at first; empty if it has as many.

    splits: the chunks that were split. Even chunks are counted when a table is planned. For others there is only an
    estimate, from the server's statistics.
    """
    split_count = len(splits)
    if plan is None or not (plan.complete or split_count):
        return ""
    were, they = ("was", "it") if split_count == 1 else ("were", "they")
    which = f" ({numbers})" if (numbers := listed(splits)) else ""
    cause = f"{split_count:,} {were} split because {they} had more than twice the planned rows{which}."
    first = plan.estimated_chunks
    if not plan.complete or first is None or first == plan.chunks:
        return cause if split_count else ""
    if plan.strategy == "even":
        return f"{words.plural(first, 'chunk')} planned, {plan.chunks:,} now{f': {cause}' if split_count else '.'}"
    expectation = f"About {words.plural(first, 'chunk')} expected from the server's statistics, {plan.chunks:,} now."
    return f"{expectation} {cause}" if split_count else expectation


def _chunks(plan: NewestPlan) -> str:
    if plan.expected_chunks > plan.chunks:
        return f"{plan.chunks:,} of about {words.plural(plan.expected_chunks, 'chunk')}"
    return words.plural(plan.chunks, "chunk")


def chunks_read(table: TableProgress) -> str:
    """`12 of 40`, `12 of about 400`, or `—` without a plan."""
    if not table.planned:
        return words.NOTHING
    about = "" if table.complete else "about "
    return f"{table.done:,} of {about}{table.expected_chunks:,}"


def state(table: TableProgress, pipeline_state: str) -> str:
    """The state in the journal while the pipeline works, else the pipeline's.

    `waiting` for a table that is only planned.

    pipeline_state: `Runner.shown_state`.
    """
    if not table.state:
        return "waiting" if table.planned else words.NOTHING
    return table_state(table.state, pipeline_state)


def troubled_first(tables: Iterable[TableProgress]) -> list[TableProgress]:
    """The tables that stopped, then those with chunks that are retried, then the others; each in the order given."""
    return sorted(tables, key=lambda one: (one.state != "stopped", not one.failed))


def who(table: TableProgress, *, live: bool) -> str:
    """Who acts on the table's state: you if it stopped, a live runner if chunks are retried; else empty."""
    return who_acts("red" if table.state == "stopped" else "orange" if table.failed and live else "")
