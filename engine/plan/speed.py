"""Estimates how long a snapshot takes, by reading rows from the source as a chunk's reader does."""

from collections import Counter
from collections.abc import Sequence

from engine.base import clock
from engine.base.errors import TidemarkError
from engine.decode.result_rows import decode_rows
from engine.decode.schema import Table
from engine.plan.chunks import Plan
from engine.source.connect import Connection, quote
from engine.source.packets import prepare
from engine.spec.throttle_settings import Throttle

_ROWS = 50_000


def bytes_per_s(connection: Connection, tables: Sequence[Table], plans: Sequence[Plan]) -> float | None:
    """Bytes per second, as in the server's statistics, of one reader on the first rows of the largest table.

    None if there is nothing to measure, or the table cannot be read.
    """
    sized = [(plan, table) for plan, table in zip(plans, tables, strict=True) if plan.approx_rows and plan.approx_bytes]
    if not sized:
        return None
    plan, table = max(sized, key=lambda pair: pair[0].approx_bytes)
    columns = ", ".join(quote(column.name) for column in table.columns)
    sql = f"SELECT {columns} FROM {quote(table.database, table.name)} LIMIT {_ROWS}"
    doing, rows, began = f"Measuring {table.full_name}", 0, clock.monotonic_s()
    try:
        statement = prepare(connection, sql, doing)
        for block in statement.execute(doing)[1].blocks():
            rows += decode_rows(block.buffer, block.start, block.end, table.columns, Counter()).num_rows
        statement.close()
    except TidemarkError:
        return None
    return rows * plan.approx_bytes / plan.approx_rows / max(clock.monotonic_s() - began, 1e-6)


def seconds(plan: Plan, speed: float | None, readers: int, throttle: Throttle) -> float | None:
    """Estimated seconds for a table, if as many readers as it has chunks work on it and the throttle allows it.

    None if the speed is unknown. The size of the files is unknown too; the server's estimate in bytes is used instead.
    """
    if speed is None:
        return None
    busy = max(min(throttle.readers or readers, plan.estimated_chunks), 1)
    return max(plan.approx_bytes / speed / busy, owed_s(throttle, plan.approx_rows, plan.approx_bytes))


def owed_s(throttle: Throttle, rows: float, size: float) -> float:
    """Seconds that this many rows and bytes of files take at the throttle's rates; 0 without a rate."""
    rates = ((rows, throttle.max_rows_per_s), (size, throttle.max_bytes_per_s))
    return max((amount / rate for amount, rate in rates if rate), default=0.0)
