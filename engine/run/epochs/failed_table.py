"""What becomes of a table whose destination failed: it is resnapshotted, or it stops."""

from engine.base import clock
from engine.base.errors import MissingFilesError, TidemarkError, stop_of
from engine.decode.schema import Table
from engine.ledger.records import Due, TableChange
from engine.spec.settings import Spec


def resnapshots_itself(spec: Spec, table: Table) -> bool:
    """Whether a table is resnapshotted without a command. How often is limited (`tables.resnapshot_limit`)."""
    return bool(spec.source.copies and spec.source.schema_changes == "copy" and table.key)


def due(error: TidemarkError | None, by: str | None = None) -> Due:
    """A resnapshot that is decided now. error: what it repairs; by: the command that asked for it."""
    return Due(clock.utc_text(), by, error.to_record() if error else None)


def after_failure(error: TidemarkError, spec: Spec, table: Table) -> TableChange:
    """The change of a table whose destination failed with this error."""
    if isinstance(error, MissingFilesError) and resnapshots_itself(spec, table):
        return TableChange(due=due(error))
    return TableChange(stopped=stop_of(error, table.full_name))
