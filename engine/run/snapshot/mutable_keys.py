"""Fast-forwards chunks of tables with a mutable key to their epoch's position.

`capture.chunk.fast_forward` explains why.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from engine.base.errors import TableStoppedError, TidemarkError
from engine.capture.chunk.fast_forward import FastForward
from engine.capture.reports import FailureReport, FastForwardReport, ReaderReport
from engine.run.snapshot.table_copy import Finished
from engine.source.positions import Position
from engine.store.folder import Folder


@dataclass(frozen=True)
class ReplacedFiles:
    """Files that nothing names any more."""

    folder: Folder
    names: Sequence[str]


@dataclass
class FastForwarded:
    """Chunks that are now exact at the position, tables that stopped meanwhile, and replaced files by chunk."""

    chunks: list[Finished]
    stopped: dict[str, TidemarkError] = field(default_factory=dict)
    replaced: dict[tuple[str, int], ReplacedFiles] = field(default_factory=dict)


def fast_forward_to(
    position: Position,
    chunks: Sequence[Finished],
    task: Callable[[Finished, Position], FastForward],
    run: Callable[[Sequence[FastForward], str], Sequence[ReaderReport]],
) -> FastForwarded:
    """Fast-forward chunks to a position at or after their high watermarks.

    Raises errors that concern more than one table.
    """
    forwarded = FastForwarded([f for f in chunks if f.high.order == position.order])
    behind = {f.identity: f for f in chunks if f.high.order < position.order}
    if not behind:
        return forwarded
    tasks = {identity: task(f, position) for identity, f in behind.items()}
    for report in run(list(tasks.values()), f"fast-forwarding {len(tasks)} chunks to {position}"):
        if isinstance(report, FailureReport):
            if not isinstance(report.error, TableStoppedError):
                raise report.error
            forwarded.stopped[report.table] = report.error
            continue
        assert isinstance(report, FastForwardReport)
        identity = (report.table, report.chunk)
        before = behind[identity]
        dates = dict(Counter(before.report.nulled_dates) + Counter(report.nulled_dates))
        exact = replace(before.report, files=report.files, rows=report.rows, nulled_dates=dates, high=position)
        forwarded.chunks.append(Finished(exact))
        new_names = {file.name for file in report.files}
        folder = tasks[identity].request.folder
        names = tuple(file.name for file in before.files if file.name not in new_names)
        forwarded.replaced[identity] = ReplacedFiles(folder, names)
    return forwarded
