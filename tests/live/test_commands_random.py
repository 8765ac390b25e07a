"""Random commands to a running pipeline whose tables are written.

Each command is answered, and the mirrors end equal.
"""

import json
import os
import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from engine.pipeline.command_file import send_command
from engine.pipeline.directory import Directory
from engine.status.status import status
from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_equal, source_table
from tests.live.support.keyed import KEYED, KeyedWriter, create
from tests.live.support.pipeline import Pipeline, Runner
from tests.servers import Server
from tests.support.depth import depth, on
from tests.support.patience import PATIENCE_S

NAMES, GUEST = ("general", "tenant", "falling"), "abc"
ROWS, WRITTEN, CHUNK_ROWS = 600, 500, 300
SEQUENCES = depth(4, 200)
"""On each server, about three seconds each. `TIDEMARK_SEED` changes them."""
A_ROUND = max(SEQUENCES // 4, 15)
Command = tuple[str, dict[str, Any]]


class Chance:
    """Random commands from a seed: anything that an operator may send, sensible or not."""

    def __init__(self, seed: int, database: str) -> None:
        self._random, self._database = random.Random(seed), database

    def sequence(self) -> list[Command]:
        """Two to five commands, then those that lift every pause, so that all can be executed."""
        commands = [self._command() for _ in range(self._random.randint(2, 5))]
        lifted: list[Command] = [("resume", {}), ("resume", {"snapshot": True})]
        return [*commands, *lifted, ("resume", {"tables": [self._name(name) for name in NAMES]})]

    def _command(self) -> Command:
        kinds = [self._pause, self._throttle, self._redump, self._redump, self._redump, self._member]
        return self._random.choice(kinds)()

    def _name(self, name: str) -> str:
        return f"{self._database}.{name}"

    def _table(self) -> str:
        return self._random.choice(NAMES)

    def _pause(self) -> Command:
        verb = self._random.choice(["pause", "resume"])
        tables = {"tables": [self._name(self._table())]}
        return verb, self._random.choice([{}, {"snapshot": True}, tables])

    def _throttle(self) -> Command:
        changes: list[dict[str, Any]] = [
            {"reset": True},
            {"readers": self._random.randint(1, 3)},
            {"max_rows_per_s": 5000},
            {"readers": -1},
        ]
        return "throttle", self._random.choice(changes)

    def _redump(self) -> Command:
        name = self._table()
        keys = [[str(part) for part in KEYED[name].key(self._random.randrange(WRITTEN * 2))] for _ in range(5)]
        ends = sorted(self._random.sample(range(-10, WRITTEN * 4), 2))
        number = "tenant" if name == "tenant" else "falling"
        ranges = {"tables": [self._name(number)], "range": [str(ends[0]), str(ends[1])]}
        part: dict[str, Any] = self._random.choice(
            [
                {"tables": [self._name(name)]},
                {"tables": [self._name(name)], "chunks": [self._random.randint(0, 9)]},
                {"tables": [self._name(name)], "keys": keys},
                ranges,
                {"tables": []},
                {"tables": [self._name(GUEST)]},
            ]
        )
        return "redump", part

    def _member(self) -> Command:
        if self._random.random() < 0.5:
            return "add-table", {"tables": [self._name(GUEST)]}
        return "remove-table", {"tables": [self._name(GUEST)], "drop": self._random.random() < 0.5}


@pytest.mark.soak
@pytest.mark.timeout(3600)
@on("mariadb")
def test_commands_at_random_end_equal_and_answered(
    flavor: str, server_with: Callable[..., Server], new_pipeline: PipelineFactory
) -> None:
    """After each round of sequences, every captured table equals the source."""
    seed = int(os.environ.get("TIDEMARK_SEED", "20261122"))
    print(f"TIDEMARK_SEED={seed}")  # to repeat a failure
    server = server_with(flavor, sync_binlog=0, innodb_flush_log_at_trx_commit=0)
    database = "at_random"
    server.execute(f"CREATE DATABASE {database}")
    for name in (*NAMES, GUEST):
        create(server, database, name, ROWS)
    tables = [f"{database}.{name}" for name in NAMES]
    pipeline = new_pipeline(server, database, chunk_rows=CHUNK_ROWS, tables=tables, poll=0.2, merge=0.5)
    runner, chance = pipeline.start_streaming(), Chance(seed, database)
    sent: dict[str, Command] = {}
    for _ in range(-(-SEQUENCES // A_ROUND)):
        with KeyedWriter(server, database, [*NAMES, GUEST], WRITTEN, 200.0) as writer:
            for _ in range(A_ROUND):
                _send(pipeline, runner, chance.sequence(), sent)
            writer.stop()
        _check_equal(pipeline, runner, server)
    pipeline.finish(runner)
    _check_answers(pipeline, sent)


def _send(pipeline: Pipeline, runner: Runner, commands: list[Command], sent: dict[str, Command]) -> None:
    """Send the commands without waiting in between, then wait until all are answered."""
    directory = Directory(pipeline.home)
    new = {send_command(directory, verb, arguments=arguments): (verb, arguments) for verb, arguments in commands}
    sent |= new
    pipeline.wait_for(lambda: not any((directory.inbox / f"{one}.json").exists() for one in new), runner)


def _check_equal(pipeline: Pipeline, runner: Runner, server: Server) -> None:
    """Without writers: wait until the mirror has everything, and compare."""
    since = time.time()

    def caught_up() -> bool:
        lags = pipeline.events("source.lag")
        return bool(lags) and lags[-1]["lag_bytes"] == 0 and time.time() - since > 5

    pipeline.wait_for(caught_up, runner)
    states = {t.table: t.state for t in status(Directory(pipeline.home), "shop").tables}
    captured = [n for n in (*NAMES, GUEST) if states.get(f"{pipeline.database}.{n}") not in (None, "removed")]
    assert set(NAMES) <= set(captured)
    for name in captured:
        pipeline.wait_for(lambda name=name: _streams(pipeline, name), runner)  # type: ignore[misc]
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                assert_equal(source_table(server, pipeline.database, name), pipeline.mirror(name), KEYED[name].names)
                break
            except AssertionError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)  # the last merge is still to come


def _streams(pipeline: Pipeline, name: str) -> bool:
    found = status(Directory(pipeline.home), "shop").tables
    return any(t.table == f"{pipeline.database}.{name}" and t.state == "streaming" for t in found)


def _check_answers(pipeline: Pipeline, sent: dict[str, Command]) -> None:
    """Each command has one answer, done or refused with a reason. A redump finds no ghosts, as nothing was damaged."""
    answers: dict[str, list[dict[str, Any]]] = {}
    for event in pipeline.events("command.done", "command.refused"):
        answers.setdefault(event["id"], []).append(event)
    assert set(answers) == set(sent)
    twice = {one: found for one, found in answers.items() if len(found) != 1}
    assert not twice, twice
    for identity, (answer,) in answers.items():
        context = f"{sent[identity]} was answered {json.dumps(answer)}"
        if answer["event"] == "command.refused":
            assert answer["message"], context
        elif sent[identity][0] == "redump" and (result := answer["result"]):
            assert result.get("ghosts", 0) == 0, context
    done = {verb for identity, (verb, _) in sent.items() if answers[identity][0]["event"] == "command.done"}
    assert done == {"pause", "resume", "throttle", "redump", "add-table", "remove-table"}
    assert not pipeline.events("error", "chunk.failed")
