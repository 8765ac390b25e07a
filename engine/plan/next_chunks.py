"""Splits a table into chunks during the snapshot: even chunks by arithmetic, all others by a walk.

Neither is trusted to get sizes right. A range may be denser than the rest, one tenant may have most of the rows, the
table may have grown. So a reader stops at twice the planned rows (`capture.chunk.chunk_reader`), and the rest of its
chunk is walked.
"""

from engine.base import clock
from engine.decode.schema import Table
from engine.plan.chunks import Plan, Range
from engine.plan.coverage import Split, Unsplit
from engine.plan.keys import ChunkKey
from engine.plan.walk import next_bound
from engine.source.connect import Connection


def split(
    connection: Connection, table: Table, key: ChunkKey | None, plan: Plan, piece: Unsplit, most: int, patience_s: float
) -> Split:
    """Split up to `most` chunks off the lower end of a range; fewer after `patience_s` seconds."""
    deadline = clock.monotonic_s() + patience_s
    if piece.way == "whole" or key is None:
        return Split(piece, (piece.limits,), None)
    chunks: list[Range] = []
    rest: Range | None = piece.limits
    while rest and len(chunks) < most and (not chunks or clock.monotonic_s() < deadline):
        if piece.way == "even":
            bound = plan.even_range(piece.number + len(chunks)).upper
        else:
            bound = next_bound(connection, table, key, rest, plan.chunk_rows)
        chunks.append(Range(rest.lower, bound or rest.upper))
        rest = Range(bound, rest.upper) if bound else None
    return Split(piece, tuple(chunks), rest)
