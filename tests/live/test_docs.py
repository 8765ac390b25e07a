"""The documentation is executed literally: its commands and snippets run as written, in the order of the pages.

Only placeholders are replaced (`Stand`). `not_run.py` lists what is not executed, with reasons.
"""

import ast
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

import duckdb
import psutil
import pyarrow as pa
import pytest

from engine.alerting.silences import silences
from engine.explore.queries import answer, landing_of, published_tables
from engine.pipeline.command_file import send_command
from engine.pipeline.directory import Directory
from engine.spec.settings import load
from engine.spec.sink_settings import AUTO_BYTES
from tests.live.conftest import PipelineFactory
from tests.live.support.binlog_end import BinlogEnd
from tests.live.support.compare import assert_equal, lake_table, source_table
from tests.live.support.known_positions import ServerFactory
from tests.live.support.not_run import NOT_RUN, SHORTENED
from tests.live.support.pipeline import Pipeline
from tests.live.support.seed import seed_table
from tests.servers import PASSWORD, Server
from tests.servers.hosts import Hosts
from tests.servers.server import free_port
from tests.support.delta import rows_at
from tests.support.depth import depth, on
from tests.support.pages import PAGES, ROOT, SPEC, Block, Command, blocks, commands
from tests.support.parquet import files_of
from tests.support.patience import PATIENCE_S

ROWS = 1000
MODULES = {found.text: found.words for page in PAGES for found in commands(page) if found.words[0] == "python"}
ELSEWHERE = ("python -m engine.spark.class_archive",)
"""Run by a test of their own (`test_early_start`)."""
BENCHMARKS = tuple(
    text for text in MODULES if text.startswith("python -m tests.tools.bench.") and not text.endswith("--help")
)
"""They take minutes even when shortened, and run in a soak test; `make test` asks each what its arguments are."""
QUICK_START = PAGES[0]
LAST = ("stop", "restore", "run")
"""Commands that need a stopped runner, or stop it; executed last, in this order."""
CHANGES = (
    "UPDATE shop.orders SET status = 'packed' WHERE id = 17",
    "UPDATE shop.orders SET status = 'shipped' WHERE id = 17",
    "DELETE FROM shop.orders WHERE id = 42",
    """INSERT INTO shop.orders (id, customer_id, sku, quantity, price, status, created_at, score)
       SELECT id + 1000, customer_id, sku, quantity, price, status, created_at, score FROM shop.orders WHERE id = 3""",
)
ENTRIES = {"-U": 2, "+U": 2, "-D": 1, "+I": 1}
"""Their entries in the change log."""


@dataclass(frozen=True)
class Stand:
    """The values of the placeholders."""

    server: Server
    folder: Path

    def word(self, word: str) -> str:
        """Replace the placeholders in a word of a command."""
        return {
            SPEC: str(self.folder / "shop.toml"),
            "backup.zip": str(self.folder / "backup.zip"),
            "verified.html": str(self.folder / "verified.html"),
            "…": "shop.orders",
            "SHOP_PASSWORD=…": f"SHOP_PASSWORD={PASSWORD}",
            "SILENCE_ID": next((one.id for one in silences(Directory(self.folder / "shop"))), ""),
        }.get(word, word)

    def sql(self, text: str) -> str:
        """Replace the placeholders in statements for the source."""
        return _replaced(text, {"'…'": f"'{PASSWORD}'"})

    def spec(self, text: str) -> str:
        """The spec, adapted to the test's server: a second table to remove, several chunks, and Parquet files too."""
        return (
            _replaced(
                text,
                {
                    'host = "db.example.com"\nport = 3306': f'host = "{self.server.host}"\nport = {self.server.port}',
                    'tables = ["shop.orders"]': 'tables = ["shop.orders", "shop.carts"]',
                    'path = "lake"': 'path = "lake"\nmerge_interval_s = 1',
                },
            )
            + '[snapshot]\nchunk_rows = 100\n[spark]\nmaster = "local[2]"\n'
            + '[[sinks]]\nname = "files"\ntype = "parquet"\npath = "files"\n'
        )


class Runner:
    """A `run` that continues until it is stopped, in a process whose Spark session the next one uses."""

    def __init__(self, hosts: Hosts, words: tuple[str, ...]) -> None:
        self._result: subprocess.CompletedProcess[str] | None = None
        self._thread = Thread(target=self._run, args=(hosts, words), daemon=True)
        self._thread.start()

    def wait_for(self, found: Callable[[], Any]) -> None:
        """Wait until `found` returns true while the runner lives."""
        deadline = time.monotonic() + PATIENCE_S
        while not found():
            assert self._result is None, self._result
            assert time.monotonic() < deadline, f"nothing came in {PATIENCE_S} s"
            time.sleep(0.1)

    def ended(self) -> None:
        """Wait until the runner ends with 0."""
        self._thread.join(PATIENCE_S)
        assert self._result is not None, "it does not end"
        assert self._result.returncode == 0, self._result

    def _run(self, hosts: Hosts, words: tuple[str, ...]) -> None:
        self._result = hosts.command(words, os.environ, 2 * PATIENCE_S)


class Reader:
    """Executes the pages."""

    def __init__(self, stand: Stand, pipeline: Pipeline, hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
        """pipeline: the pipeline whose spec is written."""
        self.stand, self.pipeline, self._hosts, self._environment = stand, pipeline, hosts, monkeypatch
        self.done: set[tuple[str, ...]] = set()
        self.runner: Runner | None = None

    def run(self, command: Command) -> None:
        """Run a command to its end, once, and wait until the runner has executed it."""
        words = tuple(map(self.stand.word, command.words))
        if command.text in NOT_RUN or words in self.done:
            return
        self.done.add(words)
        if words[0] == "export":
            self._environment.setenv(*words[1].split("=", 1))
        elif command.verb == "run":
            self._start(words[1:])
        elif command.verb == "bundle":
            self._bundle(words)
        else:
            self._command(words[1:])

    def _command(self, words: tuple[str, ...]) -> None:
        """A command without a verb prints its help. The runner must have executed a command that was sent to it."""
        sent = words and words[0] in ("pause", "resume", "throttle", "redump", "add-table", "remove-table", "stop")
        sent = sent and "--dry-run" not in words
        result = self._hosts.command([*words, "--json"] if sent else words, os.environ, PATIENCE_S)
        output = result.stdout + result.stderr
        assert result.returncode == 0 or not words, f"{words}: {output}"
        assert output.strip()
        if sent:
            identity = json.loads(result.stdout)["id"]
            assert self.runner
            if words[0] == "stop":
                self.runner.ended()
            self.runner.wait_for(lambda: self._answered(identity, words))
        elif "--json" in words:
            json.loads(result.stdout)

    def _answered(self, identity: str, words: tuple[str, ...]) -> bool:
        answers = {
            e["event"]: e for e in self.pipeline.events("command.done", "command.refused") if e["id"] == identity
        }
        assert "command.refused" not in answers, f"{words}: {answers}"
        return bool(answers)

    def _start(self, words: tuple[str, ...]) -> None:
        """Start `run` in the background."""
        runs = len(self.pipeline.events("run.connected"))
        self.runner = Runner(self._hosts, words)
        self.runner.wait_for(lambda: len(self.pipeline.events("run.connected")) > runs)

    def finish(self) -> None:
        """Wait until everything in the source's binlog is committed, then stop."""
        end, runner, pipeline = BinlogEnd.now(self.pipeline.server), self.runner, self.pipeline
        assert runner
        runner.wait_for(lambda: any(map(end.is_reached, pipeline.events("source.lag"))))
        self.close()
        runner.ended()

    def close(self) -> None:
        """Stop the runner if there is one."""
        send_command(Directory(self.pipeline.home), "stop")

    def _bundle(self, words: tuple[str, ...]) -> None:
        """Write the bundle to the reader's own folder."""
        subprocess.run(
            [sys.executable, "-m", "engine", *words[1:]],
            cwd=self.stand.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            check=True,
            stdout=subprocess.DEVNULL,
        )
        assert list(self.stand.folder.glob("shop-*.zip"))


@on("mariadb")
def test_the_pages_are_true(
    flavor: str,
    private_server: ServerFactory,
    new_pipeline: PipelineFactory,
    hosts: Hosts,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The whole quick start, every snippet that reads the lake, and every command of every page."""
    server = private_server(flavor)
    _create(server)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHOP_PASSWORD", PASSWORD)
    reader = Reader(Stand(server, tmp_path), new_pipeline(server, "shop"), hosts, monkeypatch)
    try:
        _run_pages(reader)
    finally:
        reader.close()
    assert_equal(source_table(server, "shop", "orders"), reader.pipeline.mirror("orders"))


def _run_pages(reader: Reader) -> None:
    """Execute all pages; at the end the mirror has everything."""
    _prepare(reader)
    for command in commands(QUICK_START):
        if command.verb != "console" and command.words[0] != "python":
            reader.run(command)
    _change(reader)
    seen = [block for page in PAGES for block in blocks(page) if _read(block, reader)]
    assert {block.page for block in seen} == {"quick-start.md", "destinations.md", "console.md"}

    rest = [c for page in PAGES for c in commands(page) if c.words[0] == "tidemark" and c.verb != "console"]
    for command in rest:
        if command.verb not in LAST:
            reader.run(command)
    for command in sorted((c for c in rest if c.verb in LAST), key=lambda c: LAST.index(c.verb)):
        reader.run(command)
    reader.finish()


def _create(server: Server) -> None:
    """A shop, without the additional grants of the tests' user."""
    server.execute("DROP USER 'tidemark'@'%'")
    server.execute("CREATE DATABASE shop")
    seed_table(server, "shop", "orders", ROWS)
    server.execute("ALTER TABLE shop.orders ADD COLUMN label MEDIUMBLOB")
    server.execute("UPDATE shop.orders SET label = REPEAT(SHA2(id, 512), 192)")
    server.execute("ANALYZE TABLE shop.orders")
    (size,) = server.execute("SELECT DATA_LENGTH FROM information_schema.TABLES WHERE TABLE_NAME = 'orders'")[0]
    assert size > AUTO_BYTES, "its mirror would not be merged on read, as those of most readers are"
    for table in ("carts", "invoices"):
        server.execute(f"CREATE TABLE shop.{table} (id INT PRIMARY KEY, total DECIMAL(10,2))")
        server.execute(f"INSERT INTO shop.{table} VALUES (1, 9.95), (2, 19.90)")


def _prepare(reader: Reader) -> None:
    """The quick start's user and spec."""
    for block in blocks(QUICK_START):
        if block.language == "sql":
            for statement in reader.stand.sql(block.text).split(";\n"):
                if statement.strip():
                    reader.stand.server.execute(statement)
        elif block.language == "toml":
            reader.pipeline.spec.write_text(reader.stand.spec(block.text))


def _change(reader: Reader) -> None:
    """Write to the copied source, and wait until the mirror has the change."""
    pipeline, server = reader.pipeline, reader.stand.server
    assert reader.runner
    names = {"shop.orders", "shop.carts"}
    reader.runner.wait_for(
        lambda: {e["table"] for e in pipeline.events("table.state") if e["state"] == "streaming"} == names
    )
    for change in CHANGES:
        server.execute(change)
    reader.runner.wait_for(lambda: 1003 in lake_table(pipeline.mirror("orders"))["id"].to_pylist())
    reader.runner.wait_for(lambda: files_of(pipeline.folder / "files", "shop.orders"))


def _read(block: Block, reader: Reader) -> bool:
    """Execute a block that reads the lake and check its result; False if it reads nothing or cannot be executed."""
    if block.title in NOT_RUN:
        return False
    if block.language == "python" and block.page == QUICK_START.name:
        (mirror,) = _values(block)
        assert_equal(source_table(reader.stand.server, "shop", "orders"), mirror)
    elif block.language == "python":
        mirror, log = _values(block)
        assert_equal(source_table(reader.stand.server, "shop", "orders"), mirror)
        kinds = log["_tm_kind"].to_pylist()
        assert {kind: kinds.count(kind) for kind in set(kinds)} == ENTRIES
    elif block.language == "sql" and block.page == "console.md":
        pipeline = reader.pipeline
        rows = answer(landing_of(load(pipeline.spec).sink), published_tables(Directory(pipeline.home)), block.text).rows
        assert rows["id"].to_pylist() == [42]
    elif block.language == "sql" and "_manifests" in block.text:
        (paths,) = _queried(block.text)
        assert paths
        assert all((reader.pipeline.folder / "files" / path).exists() for (path,) in paths)
    elif block.language == "sql" and block.page != QUICK_START.name:
        counts, history = _queried(block.text)
        assert sum(count for _, count in counts) == ROWS
        assert [kind for _, kind, _ in history] == ["-U", "+U", "-U", "+U"]
    return block.language in ("python", "sql")


def _values(block: Block) -> Iterator[pa.Table]:
    """The values of a snippet's expressions."""
    names: dict[str, Any] = {}
    for statement in ast.parse(block.text).body:
        if isinstance(statement, ast.Expr):
            yield eval(compile(ast.Expression(statement.value), str(block), "eval"), names)  # noqa: S307
        else:
            exec(compile(ast.Module([statement], []), str(block), "exec"), names)  # noqa: S102


def _queried(text: str) -> list[list[tuple[Any, ...]]]:
    """The rows of each query. DuckDB's `delta` extension needs the network, so deltalake stands in for `delta_scan`."""
    with duckdb.connect() as connection:
        for number, folder in enumerate(dict.fromkeys(re.findall(r"delta_scan\('([^']*)'\)", text))):
            connection.register(f"scan_{number}", rows_at(folder))
            text = text.replace(f"delta_scan('{folder}')", f"scan_{number}")
        return [connection.execute(statement).fetchall() for statement in connection.extract_statements(text)]


def test_the_console_starts(tmp_path: Path) -> None:
    """By each documented command, in the reader's own folder; it listens on localhost only."""
    tidemark = tmp_path / "bin" / "tidemark"
    tidemark.parent.mkdir()
    tidemark.write_text(f'#!/bin/sh\nexec {sys.executable} -m engine "$@"\n')
    tidemark.chmod(0o755)
    shown = [b.text for page in PAGES for b in blocks(page) if b.language == "sh" and "tidemark console" in b.text]
    assert len(shown) == 2
    for text in shown:
        port = free_port()
        environment = {**os.environ, "HOME": str(tmp_path), "PYTHONPATH": str(ROOT), "STREAMLIT_SERVER_PORT": str(port)}
        environment["PATH"] = f"{tidemark.parent}:{environment['PATH']}"
        console = subprocess.Popen(["sh", "-euc", text], cwd=tmp_path, env=environment, start_new_session=True)
        try:
            _await_health(port)
            processes = [psutil.Process(console.pid), *psutil.Process(console.pid).children(recursive=True)]
            listening = {c.laddr for p in processes for c in p.net_connections("inet") if c.status == "LISTEN"}
            assert listening == {("127.0.0.1", port)}
        finally:
            os.killpg(console.pid, signal.SIGKILL)
            console.wait()


def _await_health(port: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=5) as health:
            assert health.read() == b"ok"
            return
        time.sleep(0.1)
    pytest.fail("the console does not answer")


@pytest.mark.parametrize("text", [text for text in MODULES if text not in (*ELSEWHERE, *depth(BENCHMARKS, ()))])
def test_modules_run(text: str) -> None:
    """Each documented `python -m` runs in the repository, a long benchmark with arguments that shorten it."""
    assert _printed([*MODULES[text][1:], *SHORTENED.get(text, ())])


@pytest.mark.parametrize("text", BENCHMARKS)
def test_benchmarks_have_the_arguments_of_the_pages(text: str) -> None:
    """Those with which the soak test shortens them, too."""
    words = [*MODULES[text][1:], *SHORTENED.get(text, ())]
    arguments = _printed([*words[:2], "--help"])
    assert not [word for word in words[2:] if word.startswith("--") and f"{word} " not in arguments.replace("]", " ")]


def _printed(words: list[str]) -> str:
    """What the interpreter prints with these words in the repository."""
    run = [sys.executable, *words]
    result = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


def _replaced(text: str, values: dict[str, str]) -> str:
    """Replace each placeholder, which must be there, by its value."""
    for placeholder, value in values.items():
        assert placeholder in text, f"the page has no {placeholder} any more"
        text = text.replace(placeholder, value)
    return text
