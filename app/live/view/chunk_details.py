"""All that is known about one chunk, as labelled facts in groups."""

from app.common.view import words
from app.live.view.lineage import UNSPLIT, Lineage, split_words
from engine.history.chunk_queries import ChunkDetails

Group = tuple[str, list[tuple[str, str]]]
MEANINGS = {"Watermarks and backfill": ("window", "watermark", "backfill"), "Where": ("reader", "epoch", "run")}
"""The words of the glossary that explain a group."""


def facts(chunk: ChunkDetails, lineage: Lineage = UNSPLIT) -> list[Group]:
    """Groups of (label, value); values are plain text, unknown ones are `—`. lineage: of the table's chunks."""
    return [
        ("Read", _read(chunk) + _splits(chunk.chunk, lineage)),
        ("Watermarks and backfill", _watermarks(chunk)),
        ("Where", _where(chunk)),
    ]


def _read(chunk: ChunkDetails) -> list[tuple[str, str]]:
    parts = (chunk.low_s, chunk.read_s, chunk.high_s, chunk.backfill_s, chunk.write_s)
    times = [part for part in parts if part is not None]
    return [
        ("Rows", words.NOTHING if chunk.rows is None else f"{chunk.rows:,}"),
        ("File size", words.size(chunk.bytes)),
        ("Time", words.duration(sum(times)) if times else words.NOTHING),
        ("reading", words.duration(chunk.read_s)),
        ("backfill", words.duration(chunk.backfill_s)),
        ("writing", words.duration(chunk.write_s)),
    ]


def _splits(number: int, lineage: Lineage) -> list[tuple[str, str]]:
    parent, split = lineage.parents.get(number), lineage.splits.get(number)
    origin = [] if parent is None else [("Split from", f"chunk {parent:,}")]
    return origin + ([("Split", split_words(split))] if split else [])


def _watermarks(chunk: ChunkDetails) -> list[tuple[str, str]]:
    changes = words.NOTHING
    if chunk.backfill_changes is not None:
        changes = f"{words.plural(chunk.backfill_changes, 'change')} in the window"
    return [
        ("Low", chunk.low or words.NOTHING),
        ("High", chunk.high or words.NOTHING),
        ("Gap", _gap(chunk)),
        ("Backfill", changes),
        ("upserted", words.count(chunk.backfill_upserted)),
        ("deleted", words.count(chunk.backfill_deleted)),
    ]


def _where(chunk: ChunkDetails) -> list[tuple[str, str]]:
    return [
        ("Reader", chunk.reader or words.NOTHING),
        ("Attempts", words.NOTHING if chunk.attempts is None else f"{chunk.attempts:,}"),
        ("Started", words.date_time(chunk.started)),
        ("Published", words.NOTHING if chunk.epoch is None else f"in epoch {chunk.epoch}"),
        ("File", chunk.file or words.NOTHING),
        ("Run", chunk.run or words.NOTHING),
    ]


def _gap(chunk: ChunkDetails) -> str:
    if chunk.gap_bytes is None:
        return words.NOTHING if chunk.low is None else "over several binlog files"
    return "none: exact snapshot" if chunk.gap_bytes == 0 else words.size(chunk.gap_bytes)
