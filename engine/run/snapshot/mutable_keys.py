"""Carrying the chunks of moving tables to the position at which they are published (`capture.chunk.fast_forward` says why)."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from engine.capture.chunk.fast_forward import FastForward
from engine.capture.tasks import Report
from engine.errors import TableStoppedError, TidemarkError, from_dict
from engine.run.snapshot.table_copy import Finished
from engine.source.positions import Position, position_from_dict


@dataclass
class FastForwarded:
    """The chunks, exact at the position now; tables that stopped meanwhile; of each, files that have been replaced by others."""

    chunks: list[Finished]
    stopped: dict[str, TidemarkError] = field(default_factory=dict)
    replaced: dict[tuple[str, int], list[Path]] = field(default_factory=dict)


def fast_forward_to(
    position: Position,
    chunks: Sequence[Finished],
    task: Callable[[Finished, Position], FastForward],
    run: Callable[[Sequence[FastForward], str], list[Report]],
) -> FastForwarded:
    """Carry chunks, whose high watermarks are not behind the position, to it. Raises what is not one table's error alone."""
    carried = FastForwarded([f for f in chunks if _high(f).order == position.order])
    behind = {f.identity: f for f in chunks if _high(f).order < position.order}
    if not behind:
        return carried
    tasks = {identity: task(f, position) for identity, f in behind.items()}
    for report in run(list(tasks.values()), f"carrying {len(tasks)} chunks to {position}"):
        identity = (report["table"], report["chunk"])
        if "failure" in report:
            error = from_dict(report["failure"])
            if not isinstance(error, TableStoppedError):
                raise error
            carried.stopped[report["table"]] = error
            continue
        before = behind[identity]
        dates: dict[str, int] = dict(Counter(before.report["nulled"]) + Counter(report["nulled"]))
        changed = {"files": report["files"], "rows": report["rows"], "nulled": dates, "high": position.as_dict()}
        carried.chunks.append(Finished(before.table, {**before.report, **changed}))
        kept = {file["name"] for file in report["files"]}
        folder = tasks[identity].request.folder
        carried.replaced[identity] = [folder / file.name for file in before.files if file.name not in kept]
    return carried


def _high(finished: Finished) -> Position:
    return position_from_dict(finished.report["high"])
