"""Cutting a table into chunks while it is being read: even chunks by arithmetic, all others by a walk.

Neither is trusted to be right about sizes. A range may be denser than the rest, one tenant may have most of the rows, the table may
have grown; so a reader stops at twice the planned rows (`capture.chunk`), and what it left is walked.
"""

from engine import clock
from engine.decode.schema import Table
from engine.plan.chunks import Plan, Range
from engine.plan.coverage import Cut, Uncut, Way
from engine.plan.keys import ChunkKey
from engine.plan.walk import next_bound
from engine.source.connect import Connection


def cut(
    connection: Connection, table: Table, key: ChunkKey | None, plan: Plan, piece: Uncut, most: int, patience_s: float
) -> Cut:
    """Up to `most` chunks off the lower end of a range; fewer when that takes longer than `patience_s`."""
    deadline = clock.monotonic_s() + patience_s
    if piece.way == "whole" or key is None:
        return Cut(piece, (piece.limits,), ())
    chunks: list[Range] = []
    rest: list[tuple[Range, Way]] = [(piece.limits, piece.way)]
    while rest and len(chunks) < most and (not chunks or clock.monotonic_s() < deadline):
        limits, _ = rest.pop(0)
        if piece.way == "walk":
            bound = next_bound(connection, table, key, limits, plan.chunk_rows)
            chunks.append(Range(limits.lower, bound or limits.upper))
            if bound is not None:
                rest = [(Range(bound, limits.upper), "walk")]
            continue
        chunk = plan.even_range(piece.number + len(chunks))
        if chunk.upper is not None:
            rest = [(Range(chunk.upper, limits.upper), "even")]
        chunks.append(chunk)
    return Cut(piece, tuple(chunks), tuple(rest))
