"""Audits in the background: once per `verify.audit`, the runner audits a random part of the change logs (`audit_sample`).

The audit is a process of its own, of low priority: its decoder is slow Python, and would take the runner's time. It is the command
`audit --sample`. It ends with the runner, or by itself if the runner was killed; a paused pipeline ends it, and so does one that
copies tables or waits for its source. An audit that was ended is made again when the pipeline runs. One that failed is reported as
a failing helper, and made again after ten minutes.

A part in which a table differed is audited again before the next one is chosen, until nothing differs in it, or the server has
purged it.
"""

import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import engine
from engine import clock
from engine.directory import Directory
from engine.errors import DifferencesFoundError, SourceLostError, SpecError, TidemarkError, from_dict
from engine.journal import Journal
from engine.run.helpers import Helpers
from engine.settings import Spec
from engine.source.positions import Position
from engine.verification_events import ChangeLogsAudited
from engine.verifications import LastAudit, read_audit, save_audit

_LOOK_S = 2.0
_RETRY_S = 600.0
_PATIENCE_S = 5.0
_NICE = ("nice", "-n", "19")
_HELPER = "audit"


class BackgroundAudit:
    """Audits until it is closed. may_read: whether the pipeline leaves the source to it now."""

    def __init__(
        self, spec: Spec, directory: Directory, journal: Journal, helpers: Helpers, may_read: Callable[[], bool]
    ) -> None:
        self._spec, self._directory, self._journal, self._helpers = spec, directory, journal, helpers
        self._may_read = may_read
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="audit", daemon=True)
        if spec.verify.audit_s is not None:
            self._thread.start()

    def close(self) -> None:
        """End the thread and the audit that it has begun."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(timeout=2 * _PATIENCE_S)

    def _work(self) -> None:
        period_s, failed_s = self._spec.verify.audit_s, -_RETRY_S
        assert period_s is not None
        while not self._closing.wait(_LOOK_S):
            retry = clock.monotonic_s() - failed_s >= _RETRY_S
            if not retry or not self._may_read() or not is_due(read_audit(self._directory), period_s, clock.unix_s()):
                continue
            try:
                self._audit()
            except Exception as error:  # noqa: BLE001 - a helper's error must not end it
                self._helpers.failed(_HELPER, error)
                failed_s = clock.monotonic_s()
            else:
                self._helpers.succeeded(_HELPER)

    def _audit(self) -> None:
        """Audit once, unless it must be ended. Raises TidemarkError if it fails, OSError if it cannot be started."""
        last = read_audit(self._directory)
        differing = self._audit_again({} if last is None else last["differing"])
        result = None if differing is None else self._result("--sample")
        if differing is None or result is None:
            return
        found = event_of(result)
        for table in result["tables"]:
            if table["differences"]:
                ends = [*differing.get(table["table"], ()), table["start"], table["end"]]
                differing[table["table"]] = [min(ends, key=_order), max(ends, key=_order)]
        audit: LastAudit = {
            "at": clock.utc_text(),
            "tables": found.tables,
            "images": found.images,
            "differences": found.differences,
            "start": found.start,
            "end": found.end,
            "differing": differing,
        }
        save_audit(self._directory, audit)  # before the event, whose alert is cleared only by an audit of the same part
        self._journal.write(found)

    def _audit_again(self, differing: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]] | None:
        """Audit the parts that differed. Returns those that still may differ; None if it must be ended."""
        left = dict(differing)
        for name, (start, end) in differing.items():
            try:
                result = self._result("--table", name, "--from", start, "--to", end)
            except (SourceLostError, SpecError):  # the server has purged it, or the table was removed
                del left[name]
                continue
            if result is None:
                return None
            if any(table["excluded"] for table in result["tables"]):  # it is stopped, for example
                continue
            if [(table["start"], table["end"]) for table in result["tables"]] != [(start, end)]:
                del left[name]  # it was altered since, for example: nothing is proved, and the alert stands
                continue
            found = event_of(result, again=name)
            self._journal.write(found)
            if not found.differences:
                del left[name]
        return left

    def _result(self, *arguments: str) -> dict[str, Any] | None:
        """What an audit prints; None if it must be ended before. Raises its error, or OSError if it cannot be started."""
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
    age_s = now_s - clock.parse_utc(last["at"]).timestamp()
    return not 0 <= age_s < period_s


def event_of(result: Mapping[str, Any], again: str | None = None) -> ChangeLogsAudited:
    """The event of an audit. result: what `audit --json` prints. again: the table whose part was audited before."""
    parts = [table for table in result["tables"] if table["start"] != table["end"]]
    start = min((table["start"] for table in parts), key=_order, default="")
    end = max((table["end"] for table in parts), key=_order, default="")
    return ChangeLogsAudited(
        tables=sum(table["images"] > 0 for table in result["tables"]),
        images=result["images"],
        differences=result["differences_total"],
        differing={table["table"]: table["differences"] for table in result["tables"] if table["differences"]},
        start=start,
        end=end,
        duration_s=round(result["seconds"], 3),
        again=again,
    )


def _order(position: str) -> tuple[int, int]:
    file, _, offset = position.rpartition(":")
    return Position(file, int(offset)).order


def _printed(code: int, out: IO[bytes], err: IO[bytes]) -> dict[str, Any]:
    """What the audit printed. Raises its error."""
    out.seek(0)
    err.seek(0)
    try:
        printed: dict[str, Any] = json.loads(out.read())
    except ValueError:
        text = err.read().decode(errors="replace").strip()
        raise TidemarkError(f"The audit ended with exit code {code}: {text[-500:]}") from None
    if code not in (0, DifferencesFoundError.exit_code) or "tables" not in printed:
        raise from_dict(printed)
    return printed


def _end(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
