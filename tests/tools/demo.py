"""``python -m tests.tools.demo``: a busy shop on a private server and the console to copy it with.

Ctrl-C ends everything.

The server, the pipeline's folder and the lake are temporary: every demo begins with nothing copied.
"""

import argparse
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from engine.pipeline.command_file import send_command
from engine.pipeline.directory import Directory
from engine.pipeline.runner_file import read_runner
from tests.live.support.seed import seed_table
from tests.live.support.workload import Workload
from tests.servers import FLAVORS, PASSWORD, USER, Server, start
from tests.servers.server import free_port
from tests.support.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]
DATABASE, ORDERS, PIPELINE = "shop", "orders", "shop"
PASSWORD_VARIABLE = "TIDEMARK_DEMO_PASSWORD"
RUNNER_STOP_S = 20.0

SMALL_TABLES = (
    """CREATE TABLE shop.customers (id INT UNSIGNED NOT NULL PRIMARY KEY, name VARCHAR(60) NOT NULL,
       city VARCHAR(40) NULL, credit DECIMAL(12,2) NOT NULL, member_since DATE NOT NULL)""",
    """INSERT INTO shop.customers
       SELECT id, CONCAT('Customer ', customer_id, IF(id MOD 7 = 0, ' & søn', '')), IF(id MOD 5 = 0, NULL,
              ELT(1 + id MOD 4, 'Århus', 'São Paulo', '札幌', 'Reykjavík')), price * 10, DATE(created_at)
       FROM shop.orders WHERE id <= 50000""",
    """CREATE TABLE shop.products (id INT NOT NULL PRIMARY KEY, sku VARCHAR(32) NOT NULL, title VARCHAR(80) NOT NULL,
       price DECIMAL(10,2) NOT NULL, stock INT NOT NULL, weight_kg FLOAT NULL)""",
    """INSERT INTO shop.products SELECT id, CONCAT('SKU-', LPAD(id, 5, '0')), CONCAT('Product ', id), price,
       quantity * 100, IF(id MOD 9 = 0, NULL, SQRT(id) / 10) FROM shop.orders WHERE id <= 5000""",
    """CREATE EVENT shop.sales ON SCHEDULE EVERY 1 SECOND DO
       UPDATE shop.products SET stock = IF(stock > 0, stock - 1, 500) WHERE id MOD 500 = SECOND(NOW()) MOD 50""",
)

SPEC = """\
name = "{name}"

[source]
host = "{host}"
port = {port}
user = "{user}"
{password}
tables = ["shop.*"]

[snapshot]
chunk_rows = 10000

[sink]
type = "delta"
path = "lake"

[spark]
master = "local[2]"
"""


@dataclass(frozen=True)
class Demo:
    """A demo that runs: the console's address, the folder of pipelines, the spec, the server and the load on it."""

    url: str
    home: Path
    spec: Path
    server: Server
    load: Workload


@contextmanager
def running(flavor: str = "mysql", rows: int = 300_000, rate: float = 100.0, port: int = 0) -> Iterator[Demo]:
    """A running demo; at the end console, runners, load and server are gone. `port` 0: 8501 or any free one."""
    with ExitStack() as stack:
        home = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="tidemark-demo-", ignore_cleanup_errors=True))
        )
        server = stack.enter_context(start(flavor, event_scheduler="ON"))
        fill(server, rows)
        spec = home / PIPELINE / "pipeline.toml"
        spec.parent.mkdir(parents=True)
        spec.write_text(spec_text(PIPELINE, server, f'password_env = "{PASSWORD_VARIABLE}"'))
        load = stack.enter_context(Workload(server, DATABASE, ORDERS, seed=1, rate=rate, connections=2))
        stack.callback(stop_runners, home)
        url = stack.enter_context(console(home, port or _usual_port()))
        yield Demo(url, home, spec, server, load)


def fill(server: Server, rows: int) -> None:
    """Fill the shop."""
    server.execute(f"CREATE DATABASE {DATABASE}")
    seed_table(server, DATABASE, ORDERS, rows)
    for statement in SMALL_TABLES:
        server.execute(statement)


def spec_text(name: str, server: Server, password: str) -> str:
    """The spec of the shop's pipeline. password: the line that says where the password is."""
    return SPEC.format(name=name, host=server.host, port=server.port, user=USER, password=password)


@contextmanager
def console(
    home: Path, port: int = 0, module: str = "streamlit", environment: Mapping[str, str] | None = None
) -> Iterator[str]:
    """The console on the pipelines in `home`; yields its address.

    Its environment and its runners' has the demo's password.
    """
    port = port or free_port()
    address = os.environ.get("TIDEMARK_CONSOLE_ADDRESS", "127.0.0.1")
    options = [f"--server.address={address}", f"--server.port={port}", "--server.headless=true"]
    command = [sys.executable, "-m", module, "run", "app/main.py", *options]
    log = home / "console.log"
    with log.open("ab") as out:
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "TERM", "--", *command],
            cwd=ROOT,
            env={**os.environ, "TIDEMARK_HOME": str(home), PASSWORD_VARIABLE: PASSWORD, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        _wait_until_healthy(f"http://127.0.0.1:{port}", process, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def stop_runners(home: Path) -> None:
    """Stop the runners that the console started, which outlive it by design; kill those that do not stop."""
    for spec in home.glob("*/pipeline.toml"):
        stop_runner(spec)


def stop_runner(spec: Path) -> None:
    """Stop the runner of a pipeline; kill it if it does not stop."""
    directory = Directory(spec.parent)
    record = read_runner(directory)
    runner = _runner_process(record.pid, spec) if record and record.pid else None
    if runner is None:
        return
    send_command(directory, "stop", reason="the demo ends")
    with suppress(psutil.TimeoutExpired):
        runner.wait(RUNNER_STOP_S)
    if runner.is_running():
        for process in [*runner.children(recursive=True), runner]:
            with suppress(psutil.NoSuchProcess):
                process.kill()


def _usual_port() -> int:
    """8501 if nobody listens there, else any free port."""
    with closing(socket.socket()) as listener, suppress(OSError):
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", 8501))
        return 8501
    return free_port()


def _runner_process(pid: int, spec: Path) -> psutil.Process | None:
    """The runner of that spec, if the pid still belongs to it."""
    try:
        process = psutil.Process(pid)
        return process if str(spec) in process.cmdline() else None
    except psutil.Error:
        return None


def _wait_until_healthy(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(OSError), urllib.request.urlopen(f"{url}/_stcore/health", timeout=2) as answer:  # noqa: S310
            if answer.status == 200:
                return
        time.sleep(0.2)
    raise RuntimeError(f"the console did not start:\n{log.read_text(errors='replace')[-3000:]}")


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


def main() -> int:
    """Run the demo until Ctrl-C."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.tools.demo", description="A busy shop and the console to copy it."
    )
    parser.add_argument("--flavor", choices=FLAVORS, default="mysql")
    parser.add_argument("--rows", type=int, default=300_000, help="orders at the start")
    parser.add_argument("--rate", type=float, default=100.0, help="transactions a second on the orders")
    parser.add_argument("--port", type=int, default=0, help="of the console; by default 8501 or a free one")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, _interrupt)
    print("Starting a private server, filling the shop, starting the console …", flush=True)
    try:
        with running(options.flavor, options.rows, options.rate, options.port) as demo:
            print(f"\n  Console:   {demo.url}   (pipeline “{PIPELINE}”: open it and press Start)")
            print(f"  Source:    {demo.server.flavor} {demo.server.version} on {demo.server.host}:{demo.server.port}")
            print(f"  Pipeline:  {demo.spec}\n\nCtrl-C ends everything.", flush=True)
            while demo.server.alive:
                time.sleep(1)
    except KeyboardInterrupt:
        print("\nEnded.", flush=True)
        return 0
    print("The server has ended.", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
