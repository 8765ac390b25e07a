"""Why no chunk is read, although there are some to read."""

from collections.abc import Callable, Collection

from engine.base.wording import plural, utc_time
from engine.run.snapshot.table_copy import TableCopy


def standstill(copies: Collection[TableCopy], wanted: Collection[TableCopy], is_paused: Callable[[str], bool]) -> str:
    """Why no chunk may be read; "" if there is no reason. wanted: the copies that have chunks to read or to split."""
    if any(is_paused(copy.table.full_name) for copy in wanted):
        return "paused by command"
    if stuck := [copy.table.full_name for copy in copies if copy.stuck and not copy.dropped]:
        return f"too many parked chunks of {', '.join(stuck)}"
    resting = [(one.begins, one.table.full_name) for one in copies if one.begins and not one.ready and not one.dropped]
    if not resting:
        return ""
    begins, name = min(resting)
    others = f", {plural(len(resting) - 1, 'other')} later" if resting[1:] else ""
    return f"the copy of {name} begins at {utc_time(begins)}{others}, since resnapshots are frequent"
