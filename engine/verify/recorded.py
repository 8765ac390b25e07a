"""Records results: what a table's verification is after one more comparison. Pure, except for `Recorder`."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from engine.base import clock
from engine.journal.verification_summary import Summary, Unreadable
from engine.pipeline.directory import Directory
from engine.pipeline.verification_records import Details, Difference, PartState
from engine.pipeline.verifications import (
    RESNAPSHOTTED,
    locked,
    read_details,
    read_summaries,
    save,
    summaries_changed,
    unreadable,
)
from engine.plan.chunks import text
from engine.plan.coverage import covers
from engine.verify.table_check import NumberedRange
from engine.verify.verdicts import MOST_LISTED, TableResult

_SAVE_S = 2.0
_NEVER = Summary()


def merged(
    earlier: Summary | None,
    details: Details,
    result: TableResult,
    generation: int,
    keys: Sequence[Sequence[str]] = (),
    chunks: Sequence[int] = (),
) -> tuple[Summary, Details]:
    """The summary and details of a table after a result.

    keys, chunks: those compared, if the comparison named rows or chunks.
    """
    before = earlier or _NEVER
    if result.hint:
        return _unreadable(before, details, result, generation, chunks)
    if result.verdict == "unverifiable" or (result.verdict == "lagging" and not result.parts):
        return replace(before, verdict=result.verdict, why=result.why, last=result.at), details
    if before.generation != generation:
        details, before = Details(result.table), replace(before, differences=0)
    earlier_differences = _left(details, result, keys)
    unlisted = _unlisted(before, details, result, keys)
    parts = _parts(details, result, None if unlisted or not keys else earlier_differences)
    total = result.differences_total + len(earlier_differences) + unlisted
    oldest = min(parts, key=lambda part: part.at, default=None)
    complete = (result.whole or details.complete) and cover(parts)
    summary = Summary(
        verdict="diverged" if total else result.verdict,
        why=result.why,
        at=oldest.at if oldest is not None and complete else "",
        last=result.at,
        position=oldest.position if oldest is not None else result.position,
        version=min((part.version for part in parts if part.version is not None), default=result.version),
        level="counts" if any(part.level == "counts" for part in parts) else "rows",
        rows=sum(part.rows for part in parts),
        differences=total,
        by_kind=_kinds(result, earlier_differences),
        parts=len(parts),
        compared=sum(bool(part.at) for part in parts),
        generation=generation,
        seconds=result.seconds,
    )
    if (broken := unreadable(before, generation)) and not _reads_again(broken, result, summary):
        verdict = summary.verdict if total else "unverifiable"
        summary = replace(summary, verdict=verdict, why=broken.why, unreadable=broken)
    listed = (*result.differences, *earlier_differences)[:MOST_LISTED]
    return summary, Details(result.table, complete, tuple(parts), listed)


def _unreadable(
    before: Summary, details: Details, result: TableResult, generation: int, chunks: Sequence[int]
) -> tuple[Summary, Details]:
    """After a mirror could not be read. What was known of an earlier snapshot is forgotten."""
    if before.generation != generation:
        before, details = Summary(generation=generation), Details(result.table)
    broken = Unreadable(result.at, result.why, result.hint, tuple(chunks))
    summary = replace(before, verdict=result.verdict, why=result.why, last=result.at, unreadable=broken)
    return summary, details


def _reads_again(broken: Unreadable, result: TableResult, after: Summary) -> bool:
    """Whether a comparison has read what could not be read before. after: the summary with it."""
    chunks = {part.chunk for part in result.parts}
    here = bool(broken.chunks) and chunks.issuperset(broken.chunks)
    return (result.whole and bool(result.parts)) or here or after.at > broken.at


def cover(parts: Sequence[PartState]) -> bool:
    """Whether the parts cover their table without a gap."""
    return covers((part.lower, part.upper) for part in parts)


def planned(
    earlier: Summary | None, details: Details, ranges: Sequence[NumberedRange], generation: int
) -> tuple[Summary, Details]:
    """The summary and details of a table that is to be compared part by part, from the first."""
    parts = tuple(PartState(one.chunk, text(one.limits.lower), text(one.limits.upper)) for one in ranges)
    summary = replace(earlier or _NEVER, parts=len(parts), compared=0, at="", generation=generation)
    return summary, replace(details, complete=True, parts=parts)


def forgotten(summary: Summary, generation: int) -> Summary:
    """The summary of a table whose mirror was replaced by a new snapshot: no number of the old one is left."""
    return Summary(why=RESNAPSHOTTED, last=summary.last, level=summary.level, generation=generation)


def _parts(details: Details, result: TableResult, differences: Sequence[Difference] | None = None) -> list[PartState]:
    """The parts after a result. differences: all that are left, if they are known; of a comparison of named rows."""
    if differences is not None:
        counts = Counter(one.chunk for one in differences)
        return [replace(part, differences=counts[part.chunk]) for part in details.parts]
    new = [
        PartState(
            chunk=part.chunk,
            lower=part.lower,
            upper=part.upper,
            at=result.at,
            rows=part.rows,
            differences=part.differences,
            position=result.position,
            version=result.version,
            level=result.level,
        )
        for part in result.parts
    ]
    if result.whole:
        return new
    compared = {(part.lower, part.upper): part for part in new}
    parts = [compared.pop((part.lower, part.upper), part) for part in details.parts]
    return parts if details.complete else [*parts, *compared.values()]


def _left(details: Details, result: TableResult, keys: Sequence[Sequence[str]]) -> list[Difference]:
    """The differences known before that the result says nothing about."""
    if result.whole:
        return []
    named = {tuple(key) for key in (*keys, *(one.key for one in result.differences))}
    chunks = {part.chunk for part in result.parts if part.chunk is not None}
    return [one for one in details.differences if one.key not in named and one.chunk not in chunks]


def _unlisted(before: Summary, details: Details, result: TableResult, keys: Sequence[Sequence[str]]) -> int:
    """The number of differences known before that are not listed, and that the result says nothing about."""
    listed = details.differences
    hidden = before.differences - len(listed)
    if result.whole or hidden <= 0:
        return 0
    if keys:
        return max(0, hidden - len({tuple(key) for key in keys} - {one.key for one in listed}))
    chunks = {part.chunk for part in result.parts if part.chunk is not None}
    here = sum(part.differences for part in details.parts if part.chunk in chunks)
    return max(0, hidden - max(0, here - sum(one.chunk in chunks for one in listed)))


def _kinds(result: TableResult, earlier_differences: Sequence[Difference]) -> dict[str, int]:
    kinds = dict(result.by_kind)
    for one in earlier_differences:
        kinds[one.kind] = kinds.get(one.kind, 0) + 1
    return kinds


class Recorder:
    """Saves results; the summary of many tables at most every two seconds. Call `flush` at the end."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._summaries: dict[str, Summary] = {}
        self._saved_s = clock.monotonic_s()
        self._saved: dict[str, Summary] = {}
        self._known_at = -1.0

    def record(
        self,
        result: TableResult,
        generation: int,
        keys: Sequence[Sequence[str]] = (),
        chunks: Sequence[int] = (),
    ) -> Summary:
        """Save one result. Returns the table's summary. keys, chunks: as of `merged`."""
        if (changed := summaries_changed(self._directory)) != self._known_at:
            self._saved = read_summaries(self._directory)
            self._known_at = changed
        earlier = self._summaries.get(result.table) or self._saved.get(result.table)
        with locked(self._directory):  # two processes may have compared two parts of the table
            saved = read_details(self._directory, result.table)
            summary, details = merged(earlier, saved, result, generation, keys, chunks)
            save(self._directory, {}, [details])
        self._summaries[result.table] = summary
        if clock.monotonic_s() - self._saved_s > _SAVE_S:
            self.flush()
        return summary

    def flush(self) -> None:
        """Save the summaries."""
        if self._summaries:
            save(self._directory, self._summaries, [])
            self._summaries = {}
            self._saved_s = clock.monotonic_s()
