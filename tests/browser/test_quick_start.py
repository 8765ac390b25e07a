"""The quick start, followed word by word in an empty folder.

Command line, reader and console; a small and a large table.
"""

import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest
from playwright.sync_api import expect
from pyarrow import csv

from engine.pipeline.directory import Directory
from engine.pipeline.runner_file import read_runner
from tests.browser.conftest import OpenPage, healthy
from tests.live.support.compare import assert_equal, source_table
from tests.live.support.seed import seed_table
from tests.servers import PASSWORD, Server
from tests.servers.server import free_port
from tests.support.depth import depth
from tests.support.pages import PAGES, ROOT, blocks
from tests.support.patience import PATIENCE_S

_PAGE = PAGES[0]
_ROW_BYTES = 170


class Shell:
    """A shell in an empty folder, in which `tidemark` is on the path."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder / "empty"
        self.folder.mkdir()
        self._bin = folder / "bin"
        self._bin.mkdir()
        tidemark = self._bin / "tidemark"
        tidemark.write_text(f'#!/bin/sh\nexec {sys.executable} -m engine "$@"\n')
        tidemark.chmod(0o755)
        path = f"{self._bin}:{os.environ['PATH']}"
        # Streamlit's own settings: the console must not open at the port of another test.
        self.environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "SHOP_PASSWORD": PASSWORD}
        self.environment |= {"HOME": str(folder), "STREAMLIT_SERVER_PORT": str(port)}

    def run(self, text: str) -> str:
        """Run lines of the page to their end. Returns what they print."""
        done = subprocess.run(
            ["sh", "-euc", text], cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (text, done.stdout, done.stderr)
        return done.stdout

    @contextmanager
    def running(self, text: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run a line that does not end by itself."""
        process = subprocess.Popen(["sh", "-euc", text], cwd=self.folder, env=self.environment, start_new_session=True)
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_for(condition: Callable[[], Any]) -> None:
    """Wait until it is true."""
    deadline = time.monotonic() + 2 * PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it does not come true"
        time.sleep(0.2)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """Such a shell. A runner that the console launched ends with the test."""
    shell = Shell(tmp_path, free_port())
    yield shell
    record = read_runner(Directory(shell.folder / "shop"))
    with suppress(psutil.NoSuchProcess):
        if record and record.alive:
            runner = psutil.Process(record.pid)
            for process in (*runner.children(recursive=True), runner):
                process.kill()


def _blocks(language: str) -> list[str]:
    return [block.text for block in blocks(_PAGE) if block.language == language]


def _prepare(server: Server, shell: Shell, rows: int) -> None:
    """The source's table; then the user and the spec of the page, for this server's address."""
    server.execute("DROP USER 'tidemark'@'%'")
    server.execute("CREATE DATABASE shop")
    seed_table(server, "shop", "orders", rows)
    (statements,) = _blocks("sql")
    for statement in statements.replace("'…'", f"'{PASSWORD}'").split(";\n"):
        if statement.strip():
            server.execute(statement)
    (spec,) = _blocks("toml")
    written = 'host = "db.example.com"\nport = 3306'
    assert written in spec
    address = f'host = "{server.host}"\nport = {server.port}'
    (shell.folder / "shop.toml").write_text(spec.replace(written, address))


def _rows(shell: Shell) -> pa.Table:
    """What the page's Python reads."""
    (snippet,) = _blocks("python")
    *first, last = snippet.strip().splitlines()
    lines = [*first, f"rows = {last}", "import pyarrow.feather", "pyarrow.feather.write_feather(rows, 'rows.arrow')"]
    shell.run(f"{sys.executable} - <<'END'\n" + "\n".join(lines) + "\nEND")
    return pa.ipc.open_file(shell.folder / "rows.arrow").read_all()


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("flavor", "megabytes"), depth([("mysql", 10)], [("mysql", 100), ("mariadb", 1)]))
def test_the_quick_start_works_as_written(
    flavor: str, megabytes: int, private_server: Callable[..., Server], shell: Shell, open_page: OpenPage
) -> None:
    """Check, plan, run until Ctrl-C, read.

    Then the console of the same folder starts the pipeline again, and it continues.
    """
    server, rows = private_server(flavor), megabytes * 2**20 // _ROW_BYTES
    _prepare(server, shell, rows)
    _, commands, reads, console = _blocks("sh")
    *before, run = commands.replace("…", PASSWORD).strip().splitlines()
    assert run.split("#")[0].strip() == "tidemark run shop.toml"
    shell.run("\n".join(before))
    pipeline = Directory(shell.folder / "shop")
    with shell.running(f"exec {run}") as runner:
        wait_for(lambda: runner.poll() is not None or _streaming(pipeline))
        assert runner.poll() is None, "it runs until Ctrl-C"
        runner.send_signal(signal.SIGINT)
        assert runner.wait(2 * PATIENCE_S) == 0
    server.execute("UPDATE shop.orders SET status = 'shipped' WHERE id = 17")
    with shell.running(f"exec env {console}"):
        address = f"http://127.0.0.1:{shell.environment['STREAMLIT_SERVER_PORT']}"
        wait_for(lambda: _answers(f"{address}/_stcore/health"))
        page = open_page(f"{address}/live?pipeline=shop")
        page.get_by_role("button", name="Restart").click()
        expect(page.get_by_role("heading", name=re.compile("Engine.*Running"))).to_be_visible()
        wait_for(lambda: _status_of(shell, 17) == "shipped")
        healthy(page)
        mirror, log = (csv.read_csv(pa.BufferReader(shell.run(line).encode())) for line in reads.strip().splitlines())
        assert (mirror.num_rows, log.num_rows) == (10, 2)
        assert_equal(source_table(server, "shop", "orders"), _rows(shell))
        shell.run("tidemark stop shop.toml")
        wait_for(lambda: not ((found := read_runner(pipeline)) and found.alive))


def _answers(address: str) -> bool:
    with suppress(OSError), urllib.request.urlopen(address, timeout=5):  # noqa: S310
        return True
    return False


def _streaming(pipeline: Directory) -> bool:
    record = read_runner(pipeline)
    return record is not None and record.phase == "streaming"


def _status_of(shell: Shell, number: int) -> str:
    rows = _rows(shell)
    return str(rows.filter(pa.compute.equal(rows["id"], number))["status"][0])
