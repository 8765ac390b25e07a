"""A store of buckets on this machine: versitygw, a gateway from S3's protocol to a folder, built from its Go module.

Of the servers that were tried, it is the one that is right in everything a commit rests on: of sixteen writers that
race for a name, or for a new content, one wins, always. Some others answer 200 to several.

Where Go is missing, which builds it, the Python package localbucket takes its place: right but for conditional
replacements, which it makes without a look at the condition.
"""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

from engine.store.bucket_folder import BucketFolder
from engine.store.bucket_settings import BucketSettings
from tests.servers.cache import cache_folder, locked

VERSION = "1.8.0"
MODULE = f"github.com/versity/versitygw/cmd/versitygw@v{VERSION}"
KEY, SECRET = "AKIDTIDEMARK", "secretsecretsecret"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
_BUCKET = "lake"
_START_S = 30.0


class NoBucketError(Exception):
    """No server could be started."""


def gateway() -> Path | None:
    """The program, built once per user; None without Go. Raises NoBucketError if it cannot be built."""
    program = cache_folder() / f"versitygw-{VERSION}" / "versitygw"
    with locked("versitygw"):
        if not program.exists():
            go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
            if go is None:
                return None
            _build(go, program)
    return program


def _build(go: str, program: Path) -> None:
    folder = program.with_name(".building")
    done = subprocess.run(
        [go, "install", MODULE], env={**os.environ, "GOBIN": str(folder)}, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise NoBucketError(f"versitygw cannot be built: {done.stderr[-500:]}")
    (folder / program.name).replace(program)


def _command(port: int, data: Path) -> list[str]:
    if (program := gateway()) is not None:
        return [str(program), "--port", f"127.0.0.1:{port}", "--quiet", "--keep-alive", "posix", str(data)]
    return [sys.executable, "-m", "localbucket", "--port", str(port), str(data)]


@dataclass(frozen=True)
class BucketServer:
    """A running server with one bucket."""

    port: int
    folder: Path
    """Where it keeps the bucket's objects, as files."""
    replaces: bool
    """Whether a file is replaced only under its condition."""

    @property
    def root(self) -> BucketFolder:
        """The bucket."""
        endpoint = f"http://127.0.0.1:{self.port}"
        return BucketFolder(BucketSettings(f"s3://{_BUCKET}", endpoint, "us-east-1", path_style=True))


@contextmanager
def bucket_server(home: Path) -> Iterator[BucketServer]:
    """A server that keeps its bucket in a folder. Clients find its credentials in the environment (`CREDENTIALS`)."""
    data = home / "data"
    (data / _BUCKET).mkdir(parents=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = _command(port, data)
    environment = {**os.environ, "ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=home)
    try:
        await_answer(process, port, home / "log")
        yield BucketServer(port, data / _BUCKET, replaces=command[0] != sys.executable)
    finally:
        process.terminate()
        process.wait()


def await_answer(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    """Wait until a server on this machine answers. Raises NoBucketError with the end of its log."""
    deadline = time.monotonic() + _START_S
    while True:
        with suppress(httpx.TransportError):
            httpx.get(f"http://127.0.0.1:{port}/", timeout=1.0)
            return
        if process.poll() is not None or time.monotonic() > deadline:
            raise NoBucketError(log.read_text(errors="replace")[-1500:])
        time.sleep(0.02)
