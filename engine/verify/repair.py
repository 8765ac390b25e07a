"""Repairs what a verification found: redumps the rows that differ, and verifies them again.

A redump reads rows again and writes them as changes (`capture.chunk.redump_part`), so the change log shows the repair.
A live runner executes it; without one, a run until caught-up does.
"""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from engine.base import clock
from engine.base.errors import TidemarkError
from engine.base.wording import plural
from engine.journal import entry_from
from engine.journal.events import CommandDone, CommandRefused
from engine.journal.parts import newest_lines
from engine.pipeline.command_file import send_command
from engine.pipeline.controls import load_controls
from engine.pipeline.directory import Directory
from engine.pipeline.runner_file import find_runner
from engine.pipeline.saved_lists import read_parked
from engine.plan.keys import Bound
from engine.spec.settings import Spec
from engine.verify.scope import Scope
from engine.verify.verdicts import TableResult
from engine.verify.verifier import Verifier

_MOST_KEYS = 100_000
_POLL_S = 0.3
_TAIL_BYTES = 1 << 20


def unproven(before: Sequence[TableResult], after: Sequence[TableResult]) -> list[TableResult]:
    """The results after a repair of tables that diverged before, and are not verified now."""
    diverged = {one.table for one in before if one.verdict == "diverged"}
    return [one for one in after if one.table in diverged and one.verdict != "verified"]


class Repair:
    """Repairs tables of one pipeline."""

    def __init__(
        self, spec: Spec, directory: Directory, verifier: Verifier, catch_up: Callable[[], None], sink: str = ""
    ) -> None:
        """catch_up: runs the pipeline until it is caught up. sink: the further sink that the verifier compares."""
        self._spec = spec
        self._sink = sink
        self._directory = directory
        self._verifier = verifier
        self._catch_up = catch_up

    def repair(self, results: Sequence[TableResult], reason: str, say: Callable[[str], None]) -> list[TableResult]:
        """Repair the tables that diverged. Returns all results, with those of the repaired tables after the repair.

        Raises TidemarkError when a redump is refused. reason: for the journal.
        """
        for one in results:
            if one.verdict == "diverged":
                self._check_paused(one.table)
        sent = {one.table: self._send(one, reason, say) for one in results if one.verdict == "diverged"}
        if sent and not self._alive():
            say("no runner is alive: running until caught-up")
            self._catch_up()
        for table, identity in sent.items():
            self._wait(table, identity)
        return [self._again(one, say) if one.table in sent else one for one in results]

    def _send(self, result: TableResult, reason: str, say: Callable[[str], None]) -> str:
        arguments: dict[str, Any] = {"tables": [result.table], **({"sink": self._sink} if self._sink else {})}
        if result.keys is not None and len(result.keys) <= _MOST_KEYS:
            arguments["keys"] = [list(key) for key in result.keys]
            say(f"{result.table}: redumping {plural(len(result.keys), 'row')}")
        else:
            say(f"{result.table}: redumping the table")
        why = reason or f"verification found {result.differences_total:,} differences"
        return send_command(self._directory, "redump", reason=why, arguments=arguments, pipeline=self._spec.name)

    def _alive(self) -> bool:
        runner = find_runner(self._directory)
        return runner is not None and runner.alive

    def _wait(self, table: str, identity: str) -> None:
        """Wait until a command is done. Raises TidemarkError when it is refused, or no runner is left to execute it."""
        while True:
            waits = (self._directory.inbox / f"{identity}.json").exists()
            answer = self._answer(identity)
            if isinstance(answer, CommandDone):
                return
            if isinstance(answer, CommandRefused):
                raise TidemarkError(
                    f"The repair was refused: {answer.message}",
                    detail="The differences are as they were.",
                    hint="See the differences with `verify`, and redump the table by hand.",
                )
            self._check_paused(table)
            if not waits:
                return  # an earlier journal has the answer; the verification that follows shows the outcome
            if not self._alive():
                raise TidemarkError(
                    "The runner ended before the repair was done.",
                    detail="The next run does it: the command waits in the inbox.",
                    hint="Start the pipeline.",
                )
            clock.sleep(_POLL_S)

    def _wait_copied(self, table: str) -> None:
        """Wait until a table is copied, because a resnapshot is answered when it begins. Raises as `_check_paused`."""
        while not self._verifier.is_copied(table) and self._alive():
            if any(chunk.table == table for chunk in read_parked(self._directory)):
                return  # the verification that follows says that the snapshot is not complete
            self._check_paused(table)
            clock.sleep(_POLL_S)

    def _check_paused(self, table: str) -> None:
        """Raises TidemarkError if the runner is paused, the copy of the table, or the sink that is repaired.

        Nothing is redumped until that is resumed.
        """
        runner, controls = find_runner(self._directory), load_controls(self._directory)
        paused = runner is not None and runner.alive and runner.state == "paused"
        if self._sink and self._sink in controls.sinks:
            raise TidemarkError(
                f"The repair of {table} waits, because the sink {self._sink} is paused.",
                detail="The differences are as they were. A redump that was sent is done once it is resumed.",
                hint=f"Resume it: tidemark resume SPEC --sink {self._sink}. Then verify again.",
            )
        if paused or controls.pausing(table):
            raise TidemarkError(
                f"The repair of {table} waits, because {'the pipeline' if paused else 'its copy'} is paused.",
                detail="The differences are as they were. A redump that was sent waits in the inbox.",
                hint="Resume it: tidemark resume SPEC. Then verify again.",
            )

    def _answer(self, identity: str) -> CommandDone | CommandRefused | None:
        for line in reversed(newest_lines(self._directory.journals, _TAIL_BYTES)):
            if identity not in line:
                continue
            with suppress(ValueError):  # the last line may be incomplete
                entry = entry_from(json.loads(line))
                event = None if entry is None else entry.event
                if isinstance(event, CommandDone | CommandRefused) and event.id == identity:
                    return event
        return None

    def _again(self, before: TableResult, say: Callable[[str], None]) -> TableResult:
        """Verify the repaired rows, once the mirror has the redump."""
        say(f"{before.table}: verifying again")
        keys: tuple[Bound, ...] = before.keys if before.keys is not None and len(before.keys) <= _MOST_KEYS else ()
        scope = Scope(tables=(before.table,), keys=keys)
        self._wait_copied(before.table)
        epoch = self._verifier.committed.state(fresh=True).epoch
        deadline_s = clock.monotonic_s() + 2 * self._spec.sink.max_merge_delay_s + 60
        while not self._verifier.has_merged(before.table, epoch) and clock.monotonic_s() < deadline_s:
            self._check_paused(before.table)
            clock.sleep(_POLL_S)
        result = self._verifier.verify(scope, "rows", lambda _: None)[0]
        return replace(result, scope=before.scope, whole=before.whole, rows=before.rows)
