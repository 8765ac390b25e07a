"""Why no chunk is read, although there are some to read."""

from collections.abc import Callable, Collection

from engine.base.wording import plural, utc_time
from engine.run.snapshot.table_copy import TableCopy


def standstill(
    copies: Collection[TableCopy], wanted: Collection[TableCopy], is_paused: Callable[[str], bool], *, is_reading: bool
) -> str:
    """Why no chunk may be read; "" if there is no reason.

    wanted: the copies that have chunks to read or to split. is_reading: whether chunks of others are being read.
    """
    resting = {one.table.full_name: one.begins for one in copies if one.rests}
    if any(is_paused(name) for name in (*(copy.table.full_name for copy in wanted), *resting)):
        return "paused by command"
    if stuck := [copy.table.full_name for copy in copies if copy.stuck and not copy.dropped]:
        return f"too many parked chunks of {', '.join(stuck)}"
    if is_reading or not resting:
        return ""
    begins, name = min((begins, name) for name, begins in resting.items())
    others = f", {plural(len(resting) - 1, 'other')} later" if len(resting) > 1 else ""
    return f"the copy of {name} begins at {utc_time(begins)}{others}, since resnapshots are frequent"
