"""The checks at the end of a run that reached its goal."""

from collections.abc import Mapping

from engine.base.errors import DestinationError, TablesStoppedError, TidemarkError
from engine.base.wording import plural
from engine.ledger.state import State


def require_published(failed: Mapping[str, TidemarkError]) -> None:
    """Raises DestinationError when a table has unpublished changes. failed: from `Publisher.unpublished`."""
    if failed:
        first = next(iter(failed.values()))
        tables = plural(len(failed), "table")
        raise DestinationError(
            f"The last changes of {tables} are not published: {', '.join(failed)}. {first.message}",
            detail="They are in the ledger, and the next run publishes them. "
            "The mirrors show an earlier state until then.",
            hint=first.hint,
        )


def require_sinks(failed: Mapping[str, TidemarkError]) -> None:
    """Raises DestinationError when further sinks lack epochs. failed: their errors, by name."""
    if failed:
        first = next(iter(failed.values()))
        raise DestinationError(
            f"{len(failed)} sinks lack the last epochs: {', '.join(failed)}. {first.message}",
            detail="The first destination has everything. The ledger keeps what they lack, and the next run publishes "
            "it, unless a sink was stopped.",
            hint=first.hint,
        )


def require_all_tables(state: State) -> None:
    """Raises TablesStoppedError when tables are stopped at the end of the run."""
    stopped = {name: table.stopped for name, table in state.tables.items() if table.stopped}
    if stopped:
        first = next(iter(stopped.values()))
        raise TablesStoppedError(
            f"{len(stopped)} of {len(state.tables)} tables stopped: {', '.join(stopped)}. {first.message}",
            detail=f"The other tables continued. {first.detail}",
            hint=first.hint,
        )
