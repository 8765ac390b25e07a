"""A run in a terminal, which a person watches: nothing but the run writes there."""

import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest
from deltalake import DeltaTable

from tests.live.conftest import PipelineFactory
from tests.servers import PASSWORD, Server
from tests.support.depth import on
from tests.support.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]
_FOREIGN = re.compile(r"WARN|OpenJDK|log4j|ivy", re.IGNORECASE)


@pytest.mark.soak
@on("mariadb")
def test_a_terminal_shows_the_run_and_the_log_has_what_spark_printed(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """Bars, lines above them, and at the end an error in one form."""
    server.execute(f"CREATE TABLE `{database}`.a (id INT PRIMARY KEY)")
    server.execute(f"INSERT INTO `{database}`.a VALUES (1), (2)")
    pipeline = new_pipeline(server, database)
    shown, code = _in_terminal("run", str(pipeline.spec), "--until", "caught-up")
    assert code == 0, shown
    assert f"{database}.a" in shown
    assert shown.index("starting: Spark …") < shown.index("starting: Spark is done after ") < shown.index("run ended")
    assert "run ended: done" in shown
    assert not _FOREIGN.search(shown)
    assert "WARN" in (pipeline.home / "runner.log").read_text()

    DeltaTable(str(pipeline.mirror("a"))).delete("id = 1")
    shown, code = _in_terminal("verify", str(pipeline.spec), "--repair")
    assert code == 0, shown
    assert "running until caught-up" in shown
    assert not _FOREIGN.search(shown)

    server.execute(f"DROP TABLE `{database}`.a")
    pipeline.spec.write_text(pipeline.spec.read_text().replace("TIDEMARK_TEST_PASSWORD", "TIDEMARK_WRONG"))
    shown, code = _in_terminal("run", str(pipeline.spec), "--until", "caught-up")
    assert code == 3
    assert shown.count("source.user, and the password") == 1
    assert "{" not in shown


def _in_terminal(*arguments: str) -> tuple[str, int]:
    """What a command shows in a terminal of 100 columns, and its exit code."""
    ours, its = pty.openpty()
    parts: list[bytes] = []
    variables = {"TIDEMARK_TEST_PASSWORD": PASSWORD, "TIDEMARK_WRONG": "wrong", "TERM": "xterm", "COLUMNS": "400"}
    process = subprocess.Popen(
        [sys.executable, "-m", "engine", *arguments], cwd=ROOT, env={**os.environ, **variables}, stdout=its, stderr=its
    )
    os.close(its)

    def read() -> None:
        with suppress(OSError):  # the terminal is gone
            while data := os.read(ours, 65536):
                parts.append(data)

    reader = Thread(target=read)
    reader.start()
    try:
        code = process.wait(PATIENCE_S)
    finally:
        process.kill()
        process.wait()
        reader.join()
        os.close(ours)
    return b"".join(parts).decode(), code
