"""Verifies the tables of a pipeline, with or without a runner (docs/verification.md).

It reads the ledger, the mirrors and the source, and writes nothing to any of them. It takes no lock, so the pipeline
runs on. Every comparison is exact at a position that both sides have (`settling`).
"""

import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace

from engine.base import clock
from engine.base.errors import (
    DestinationError,
    LedgerError,
    OnePhaseCommitError,
    PrivilegesMissingError,
    SourceChangedError,
    SourceLostError,
    SpecError,
    TableStoppedError,
    TidemarkError,
    TransientError,
    is_disk_full,
    is_store_away,
    is_store_refused,
)
from engine.capture.captured_tables import CapturedTables
from engine.capture.chunk.chunk_reader import ChunkRequest
from engine.capture.landing import MirrorReader
from engine.decode.arrow_schema import image_schema
from engine.decode.schema import same_columns
from engine.destination.registry import destination_of
from engine.journal.alert_kinds import remedy
from engine.ledger.state import State, TableState
from engine.pipeline.controls import load_controls
from engine.pipeline.directory import Directory
from engine.pipeline.runner_file import find_runner
from engine.pipeline.table_verdict import incomparable
from engine.pipeline.verifications import read_details
from engine.plan.chunks import WHOLE
from engine.source.catalog import check_not_hidden, read_table
from engine.spec.further_sinks import sink_named
from engine.spec.settings import Spec
from engine.spec.sink_settings import TableFormat, is_read_back
from engine.verify.catching_up import patience_s, why_behind
from engine.verify.causes import explained
from engine.verify.comparison import KINDS
from engine.verify.mirror_at import CommittedEpochs, MirrorAt
from engine.verify.recorded import Recorder
from engine.verify.rows import differences_of, keep_differences
from engine.verify.scope import Scope, ranges_of
from engine.verify.settling import Settling
from engine.verify.sink_tables import TablesOfFormat, TablesOfSink
from engine.verify.source_rows import SourceRows, scratch
from engine.verify.source_session import SourceSession
from engine.verify.table_check import NumberedRange, TableCheck
from engine.verify.verdicts import Incomparable, Level, TableResult, VerdictText, require_same_rules

_ATTEMPTS = 4
_RETRY_S = 2.0
_RETRYABLE = (TransientError, SourceChangedError, OnePhaseCommitError, LedgerError)
"""Another attempt may succeed. LedgerError: pruned while it was read."""
_FEWEST_ROWS = 10_000
"""Rows per SELECT of a table with small chunks."""


class Verifier:
    """Verifies tables one by one. Close it at the end."""

    def __init__(
        self,
        spec: Spec,
        directory: Directory,
        ended: Callable[[], bool] = lambda: False,
        committed: CommittedEpochs | None = None,
        sink: str = "",
        table_format: TableFormat = "delta",
    ) -> None:
        """ended: whether to abandon the comparison. sink: the further sink that is compared; "" for the first one.

        table_format: whose readers' rows are compared. Raises SpecError for a sink that the spec does not have, whose
        tables cannot be read back, or that has no such format.
        """
        self._spec = spec
        self._sink = sink_named(spec.sink, spec.sinks, sink)
        self._is_recorded = not sink and table_format == "delta"
        self._directory = directory
        self._ended = ended
        self.committed = committed or CommittedEpochs(directory.ledger, sink)
        self._folder = tempfile.TemporaryDirectory(prefix="tidemark-verify-")
        self._destination = destination_of(spec.sink)
        self._captured = CapturedTables(spec, self._destination.landing)
        self._tables = self._tables_of(sink, table_format)
        self._session = SourceSession(spec)

    def _tables_of(self, sink: str, table_format: TableFormat) -> CapturedTables | TablesOfSink | TablesOfFormat:
        if sink:
            return TablesOfSink(self._sink, self._captured)
        if table_format != "delta":
            return TablesOfFormat(self._sink, self._destination.landing, table_format, self._captured)
        return self._captured

    def close(self) -> None:
        """Close the connection and delete temporary files."""
        self._session.drop()
        self._folder.cleanup()

    def tables(self, scope: Scope) -> list[str]:
        """The tables of a scope."""
        return list(scope.tables or self.committed.state().tables)

    def verify(self, scope: Scope, level: Level, finished: Callable[[TableResult], None]) -> list[TableResult]:
        """Verify the tables of a scope, one after the other, and record the results. finished: called with each."""
        results, recorder = [], Recorder(self._directory)
        try:
            for name in self.tables(scope):
                results.append(self.table(name, scope, level))
                self.record(recorder, results[-1], scope)
                finished(results[-1])
        finally:
            recorder.flush()
        return results

    def record(self, recorder: Recorder, result: TableResult, scope: Scope) -> None:
        """Record a result in the pipeline's directory, and differences that were not known in the destination.

        That of a further sink or another format is not: what is recorded is about the tables of the first one.
        """
        if not self._is_recorded:
            return
        recorded = read_details(self._directory, result.table).differences
        before = [replace(one, cause="", chunk=None) for one in recorded]
        new = [one for one in result.differences if replace(one, cause="", chunk=None) not in before]
        table_state = self.committed.state().tables.get(result.table)
        if table_state is not None:
            recorder.record(result, table_state.generation, scope.keys, scope.chunks)
        keep_differences(self._destination, new, result)

    def ranges(self, name: str) -> Sequence[NumberedRange]:
        """The ranges in which a table is compared."""
        table_state = self.committed.state().tables[name]
        self._captured.take(name, table_state)
        return ranges_of(Scope(), self._directory, table_state, self._captured.tables[name], self._captured.plans[name])

    def has_merged(self, name: str, epoch: int) -> bool:
        """Whether a table's mirror has its last copy, and all changes up to an epoch."""
        table_state = self.committed.state(fresh=True).tables.get(name)
        if table_state is None or table_state.stopped:
            return True  # the comparison says so
        if not table_state.copied:
            return False
        self._captured.take(name, table_state)
        try:
            at = self.committed.mirror(name, self._tables.reader(name))
            at.mirror.release()
        except Incomparable:
            return False
        return at.lacks is None or at.lacks > epoch

    def is_copied(self, name: str) -> bool:
        """Whether a table's snapshot is complete, or never will be."""
        table_state = self.committed.state(fresh=True).tables.get(name)
        return table_state is None or bool(table_state.stopped) or table_state.copied

    def table(self, name: str, scope: Scope, level: Level) -> TableResult:
        """Verify one table. Whatever goes wrong concerns this table alone."""
        began_s = clock.monotonic_s()
        result = TableResult(name, "lagging", level=level)
        for attempt in range(_ATTEMPTS):
            result, again = self._attempt(name, scope, level)
            if not again or attempt == _ATTEMPTS - 1 or self._ended():
                break
            if attempt and not self._running():
                break  # the mirror will be the same
            clock.sleep(_RETRY_S * (attempt + 1))
        seconds = round(clock.monotonic_s() - began_s, 3)
        return replace(result, scope=scope.describe(), whole=scope.whole, at=clock.utc_text(), seconds=seconds)

    def _attempt(self, name: str, scope: Scope, level: Level) -> tuple[TableResult, bool]:
        """The result of one comparison, and whether another one may have a better one."""
        verdict: VerdictText = "lagging"
        hint = ""
        try:
            return self._compared(name, scope, level), False
        except Incomparable as error:
            verdict, why, again = error.verdict, error.why, error.verdict == "lagging"
        except _RETRYABLE as error:
            self._session.failed(error)
            why, again = _clause(error), True
        except SourceLostError as error:
            why, again = _clause(error), False
        except PrivilegesMissingError as error:
            verdict, why, again = "unverifiable", f"the account may not read it: {error.message.rstrip('.')}", False
        except DestinationError as error:
            verdict, why, again = "unverifiable", f"its mirror cannot be read: {_clause(error)}", False
            hint = remedy("mirror_unreadable", name)
        except (TableStoppedError, SpecError) as error:  # SpecError: the journals do not have the chunks any more
            verdict, why, again = "unverifiable", _clause(error), False
        except self._tables.read_failures(name) as error:  # a vacuum may have deleted the files that were read
            if is_disk_full(error):
                why, again = "the disk for temporary files is full", False
            elif is_store_away(error) or is_store_refused(error):  # nothing is known of its files
                why, again = "the store of the destination cannot be used", True
            else:
                verdict, why, again = "unverifiable", f"its mirror cannot be read: {error}", True
                hint = remedy("mirror_unreadable", name)
        return TableResult(name, verdict, why, hint, level=level), again

    def _compared(self, name: str, scope: Scope, level: Level) -> TableResult:
        state = self.committed.state(fresh=True)
        table_state = self._comparable(name, state)
        self._captured.take(name, table_state)
        table, plan = self._captured.tables[name], self._captured.plans[name]
        session = self._session.opened(state)
        check_not_hidden(session.connection, table.database, table.name)  # it would pass for an altered table
        if not same_columns(read_table(session.connection, table.database, table.name), table):
            raise Incomparable(
                "lagging", "its columns have changed on the source, and the pipeline has not followed yet"
            )
        projection = self._captured.projection(name)
        reader, rate = self._tables.reader(name), self._rate()
        request = ChunkRequest(
            table, 0, plan.key(table), WHOLE, max(plan.chunk_rows, _FEWEST_ROWS), scratch(self._folder.name),
            self._spec.snapshot.max_chunk_memory_bytes, projection, rows_per_s=rate,
        )  # fmt: skip
        source = SourceRows(session, self._session.endpoint(state), self._spec.first_server_id(), request)
        settling = Settling(source, lambda: self._mirror(name, reader, state.identity), self._rewritten_json(name))
        check = TableCheck(source, settling, self._ended)
        with closing(check):
            if scope.keys:
                check.keys(scope.keys)
            else:
                ranges = ranges_of(scope, self._directory, table_state, table, plan)
                (check.counts if level == "counts" else check.ranges)(ranges)
        behind = "" if check.findings.total else self._why_behind(name, reader, check)
        after = self.committed.state(fresh=True).tables.get(name)
        if after is None or (after.generation, after.table, after.stopped) != (
            table_state.generation,
            table_state.table,
            table_state.stopped,
        ):
            raise Incomparable("lagging", "it was altered or resnapshotted meanwhile")
        return self._result(name, level, check, behind)

    def _rewritten_json(self, name: str) -> set[str]:
        """Of the mirror; and of the first destination, whose rows a sink that joined later has got."""
        return {*self._tables.reader(name).rewritten_json, *self._captured.reader(name).rewritten_json}

    def _why_behind(self, name: str, reader: MirrorReader, check: TableCheck) -> str:
        """Why the mirror has not got the changes that were replayed for it; "" if it has, or lacked none."""
        if check.findings.reached is None:
            return ""
        limit_s = patience_s(self._spec)
        why = why_behind(self.committed, self._directory, name, reader, check.findings.reached, limit_s, self._ended)
        return f"{why} of {check.findings.lacking:,} keys" if why.endswith("last changes") else why

    def _mirror(self, name: str, reader: MirrorReader, identity: str) -> MirrorAt:
        """The newest version of a mirror. Positions of two servers cannot be compared."""
        at = self.committed.mirror(name, reader)
        if at.identity != identity:
            raise Incomparable("lagging", "the source became another server meanwhile")
        return at

    def _comparable(self, name: str, state: State) -> TableState:
        table_state = state.tables.get(name)
        if table_state is None:
            raise Incomparable("unverifiable", "it is no table of the pipeline")
        if table_state.stopped:
            raise Incomparable("unverifiable", f"it has stopped: {table_state.stopped.message}")
        if why := incomparable(
            key=bool(table_state.table.get("key")), copies=self._spec.source.copies, mirrors=is_read_back(self._sink)
        ):
            raise Incomparable("unverifiable", why)
        require_same_rules(self._spec, table_state)
        if not table_state.copied:
            raise Incomparable("lagging", "its snapshot is not complete")
        return table_state

    def _result(self, name: str, level: Level, check: TableCheck, behind: str) -> TableResult:
        findings, first = check.findings, check.findings.first
        assert first is not None
        verdict = "diverged" if findings.total else "lagging" if behind else "verified"
        keys, table = check.differing_keys(), self._captured.tables[name]
        differences = differences_of(findings, table)
        if differences and keys is not None:
            schema = image_schema(self._captured.projection(name).published_table(table))
            named = list(dict.fromkeys(one.key for one in differences))
            logs = self._captured.reader(name)
            differences = explained(
                differences, table, schema, first.mirror, logs, named, names_writers=self._sink.has_mirrors
            )
        return TableResult(
            table=name,
            verdict=verdict,  # type: ignore[arg-type]
            why=behind,
            position=str(first.position),
            version=first.version,
            level=level,
            rows=findings.rows,
            differences=tuple(differences),
            differences_total=findings.total,
            by_kind={kind: findings.counts[kind] for kind in KINDS if findings.counts[kind]},
            parts=() if behind else tuple(findings.parts),
            keys=keys,
        )

    def _running(self) -> bool:
        runner = find_runner(self._directory)
        return runner is not None and runner.alive

    def _rate(self) -> float:
        """Rows per second: the throttle's, as operators have set it."""
        throttle = {**self._spec.throttle.model_dump(), **load_controls(self._directory).at(clock.utc_text()).throttle}
        return float(throttle.get("max_rows_per_s") or 0.0)


def _clause(error: TidemarkError) -> str:
    return error.message[:1].lower() + error.message[1:].rstrip(".")
