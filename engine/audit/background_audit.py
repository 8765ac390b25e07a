"""Audits in the background.

Once per `verify.audit`, the runner audits a random part of the change logs (`audit_sample`).

The audit is a process of its own, of low priority: its decoder is slow Python, and would take the runner's time. It is
the command `audit --sample`. It ends with the runner, or by itself if the runner was killed; a paused pipeline ends it,
and so does one that copies tables, works off a backlog, or waits for its source. An audit that was ended, or lost its
source, is made again when the pipeline runs, after a rest that grows from one minute to ten. One that failed is
reported as a failing helper until another one succeeds, and made again after ten minutes. So is one that loses its
source over and over while the pipeline has it.

A part in which a table differed is audited again before the next one is chosen, until nothing differs in it, or nothing
can be proved any more: the server has purged it, another server has taken over, or the table was resnapshotted (perhaps
because the server was reset, and its binlog is another one) or is not captured any more.
"""

import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import engine
from engine.audit.audit_range import check_available
from engine.audit.audit_result import AuditResult
from engine.base import clock
from engine.base.errors import (
    AccountRefusedError,
    DifferencesFoundError,
    SourceChangedError,
    TidemarkError,
    TransientError,
    is_disk_full,
    printed_error,
)
from engine.capture.binlog.binlog_access import binary_logs
from engine.journal import Journal
from engine.journal.verification_events import ChangeLogsAudited
from engine.ledger.state import State
from engine.pipeline.directory import Directory
from engine.pipeline.helpers import Helpers
from engine.pipeline.verification_records import LastAudit
from engine.pipeline.verifications import read_audit, save_audit
from engine.source.endpoint import endpoint_of
from engine.source.positions import position_from_text
from engine.spec.settings import Spec

_LOOK_S = 2.0
_REST_S, _RETRY_S = 60.0, 600.0
"""The rest after an audit that did not end by itself, and the longest one, which also follows a failed one."""
_OUTAGES = 5
"""Audits in a row that lose their source before that is reported: others report that it is away."""
_PATIENCE_S = 5.0
_NICE = ("nice", "-n", "19")
_HELPER = "audit"


class BackgroundAudit:
    """Audits until it is closed.

    state: the committed state. may_read: whether the pipeline leaves the source to it now.
    """

    def __init__(
        self,
        spec: Spec,
        directory: Directory,
        journal: Journal,
        helpers: Helpers,
        state: Callable[[], State],
        may_read: Callable[[], bool],
    ) -> None:
        self._spec = spec
        self._directory = directory
        self._journal = journal
        self._helpers = helpers
        self._state = state
        self._may_read = may_read
        self._next_s = -_RETRY_S
        self._unfinished = 0
        self._outages = 0
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="audit", daemon=True)
        if spec.verify.audit_s is not None and spec.sink.has_mirrors:
            self._thread.start()

    def close(self) -> None:
        """End the thread and the audit that it has begun."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(timeout=2 * _PATIENCE_S)

    def _work(self) -> None:
        while not self._closing.wait(_LOOK_S):
            self._look()

    def _look(self) -> None:
        """Audit if one is due."""
        period_s = self._spec.verify.audit_s
        assert period_s is not None
        rests = clock.monotonic_s() < self._next_s
        if rests or not self._may_read() or not is_due(read_audit(self._directory), period_s, clock.unix_s()):
            return
        rest_s = _RETRY_S
        try:
            if self._audit():
                self._unfinished = 0
                self._outages = 0
                self._helpers.succeeded(_HELPER)
                return
            rest_s = self._rest_s()
        except (TransientError, SourceChangedError, AccountRefusedError) as error:
            rest_s, self._outages = self._rest_s(), self._outages + 1
            if self._outages > _OUTAGES or is_disk_full(error):
                self._helpers.failed(_HELPER, error)
        except Exception as error:  # noqa: BLE001 - a helper's error must not end it
            self._helpers.failed(_HELPER, error)
        self._next_s = clock.monotonic_s() + rest_s

    def _rest_s(self) -> float:
        """The rest after one more audit that did not end by itself."""
        self._unfinished += 1
        return float(min(_REST_S * 2 ** min(self._unfinished - 1, 10), _RETRY_S))

    def _audit(self) -> bool:
        """Audit once.

        False if it must be ended before. Raises TidemarkError if it fails, OSError if it cannot be started.
        """
        state, differing = self._state(), self._audit_again(read_audit(self._directory))
        result = None if differing is None else self._result("--sample")
        if differing is None or result is None:
            return False
        event = event_of(result)
        for one in result.tables:
            if one.differences:
                ends = [*differing.get(one.table, ()), one.start, one.end]
                differing[one.table] = [min(ends, key=_order), max(ends, key=_order)]
        audit = LastAudit(
            at=clock.utc_text(),
            tables=event.tables,
            images=event.images,
            differences=event.differences,
            start=event.start,
            end=event.end,
            differing=differing,
            generations={name: state.tables[name].generation for name in differing if name in state.tables},
            server=result.source,
        )
        save_audit(self._directory, audit)  # before the event, whose alert is cleared only by an audit of the same part
        self._journal.write(event)
        return True

    def _audit_again(self, last: LastAudit | None) -> dict[str, Sequence[str]] | None:
        """Audit the parts that differed. Returns those that still may differ; None if it must be ended."""
        differing = self._provable(last) if last is not None and last.differing else {}
        for name, (start, end) in list(differing.items()):
            result = self._result("--table", name, "--from", start, "--to", end)
            if result is None:
                return None
            if any(one.excluded for one in result.tables):  # it is stopped, for example
                continue
            if [(one.start, one.end) for one in result.tables] != [(start, end)]:
                del differing[name]  # it was altered since, for example: nothing is proved, and the alert stands
                continue
            event = event_of(result, again=name)
            self._journal.write(event)
            if not event.differences:
                del differing[name]
        return differing

    def _provable(self, last: LastAudit) -> dict[str, Sequence[str]]:
        """The parts that differed and are still in the binlog, of tables that were not resnapshotted.

        Raises TidemarkError.
        """
        state = self._state()
        if last.server not in ("", state.identity):
            return {}
        files = binary_logs(replace(endpoint_of(self._spec.source), identity=state.identity))
        return {
            name: (start, end)
            for name, (start, end) in last.differing.items()
            if name in state.tables
            and last.generations.get(name, state.tables[name].generation) == state.tables[name].generation
            and not check_available(position_from_text(start), files)
        }

    def _result(self, *arguments: str) -> AuditResult | None:
        """The result of an audit; None if it must be ended before.

        Raises its error, or OSError if it cannot be started.
        """
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            command = [*_NICE, sys.executable, "-m", "engine", "audit", str(self._directory.spec), "--json", *arguments]
            folder = Path(engine.__file__).resolve().parent.parent
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=folder, start_new_session=True
            )
            try:
                code = self._code(process)
            finally:
                _end(process)
            return None if code is None else _printed(code, out, err)

    def _code(self, process: "subprocess.Popen[bytes]") -> int | None:
        """The exit code; None if the audit must be ended before."""
        while process.poll() is None:
            if self._closing.wait(0.2) or not self._may_read():
                return None
        return process.returncode


def is_due(last: LastAudit | None, period_s: float, now_s: float) -> bool:
    """Whether the period is over. A time in the future is that of a wrong clock. now_s: seconds since 1970."""
    if last is None:
        return True
    age_s = now_s - clock.parse_utc(last.at).timestamp()
    return not 0 <= age_s < period_s


def event_of(result: AuditResult, again: str | None = None) -> ChangeLogsAudited:
    """The event of an audit. again: the table whose part was audited before."""
    parts = [one for one in result.tables if one.start != one.end]
    start = min((one.start for one in parts), key=_order, default="")
    end = max((one.end for one in parts), key=_order, default="")
    return ChangeLogsAudited(
        tables=sum(one.images > 0 for one in result.tables),
        images=result.images,
        differences=result.differences_total,
        differing={one.table: one.differences for one in result.tables if one.differences},
        start=start,
        end=end,
        duration_s=round(result.seconds, 3),
        again=again,
    )


def _order(text: str) -> tuple[int, int]:
    return position_from_text(text).order


def _printed(code: int, out: IO[bytes], err: IO[bytes]) -> AuditResult:
    """The result that the audit printed. Raises its error."""
    out.seek(0)
    err.seek(0)
    try:
        printed: dict[str, Any] = json.loads(out.read())
    except ValueError:
        text = err.read().decode(errors="replace").strip()
        raise TidemarkError(f"The audit ended with exit code {code}: {text[-500:]}") from None
    if code not in (0, DifferencesFoundError.exit_code) or "tables" not in printed:
        raise printed_error(printed)
    return AuditResult.from_json(printed)


def _end(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
