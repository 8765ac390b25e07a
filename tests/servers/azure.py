"""Azure's object store on this machine: Azurite, Microsoft's own emulator, installed from its npm package.

It is right in what a commit rests on: of sixteen writers that race for a name, or for a new content, one wins. What it
lacks of the service: it lists from the first name on, whatever name a list shall begin with.
"""

import base64
import hashlib
import hmac
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path

import httpx

from engine.store.bucket_folder import BucketFolder
from engine.store.bucket_settings import BucketSettings
from tests.servers.bucket import NoBucketError, await_answer
from tests.servers.cache import cache_folder, locked

VERSION = "3.35.0"
ACCOUNT, KEY = "tidemark", base64.b64encode(b"0123456789abcdef0123456789abcdef").decode()
CREDENTIALS = {"AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT, "AZURE_STORAGE_ACCOUNT_KEY": KEY}
_CONTAINER = "lake"
_PROGRAM = Path("node_modules/azurite/dist/src/blob/main.js")


def azurite() -> list[str] | None:
    """The command, installed once per user; None without npm. Raises NoBucketError if it cannot be installed."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        return None
    folder = cache_folder() / f"azurite-{VERSION}"
    with locked("azurite"):
        if not folder.exists():
            _install(npm, folder)
    return [node, str(folder / _PROGRAM)]


def _install(npm: str, folder: Path) -> None:
    building = folder.with_name(".azurite")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir()
    command = [npm, "install", "--prefix", str(building), "--no-audit", "--no-fund", f"azurite@{VERSION}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NoBucketError(f"azurite cannot be installed: {done.stderr[-500:]}")
    building.replace(folder)


@dataclass(frozen=True)
class AzureServer:
    """A running server with one container."""

    port: int

    @property
    def root(self) -> BucketFolder:
        """The container."""
        return BucketFolder(BucketSettings(f"az://{_CONTAINER}", self.endpoint))

    @property
    def endpoint(self) -> str:
        """Of the account."""
        return f"http://127.0.0.1:{self.port}/{ACCOUNT}"


@contextmanager
def azure_server(command: list[str], home: Path) -> Iterator[AzureServer]:
    """A server that keeps its objects in a folder. Clients find its credentials in the environment (`CREDENTIALS`).

    command: as `azurite` returns it.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    home.mkdir(parents=True, exist_ok=True)
    options = ["--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", str(home / "data")]
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, *options, "--silent", "--skipApiVersionCheck", "--disableTelemetry"],
            env={**os.environ, "AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"},
            stdout=log,
            stderr=log,
            cwd=home,
        )
    try:
        await_answer(process, port, home / "log")
        _make_container(port)
        yield AzureServer(port)
    finally:
        process.terminate()
        process.wait()


def _make_container(port: int) -> None:
    """The client of buckets makes none, so this is a request signed by the account's key."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    resource = f"/{ACCOUNT}/{ACCOUNT}/{_CONTAINER}\nrestype:container"
    text = "PUT" + "\n" * 12 + "".join(f"{name}:{value}\n" for name, value in headers.items()) + resource
    signature = hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(signature).decode()}"
    url = f"http://127.0.0.1:{port}/{ACCOUNT}/{_CONTAINER}?restype=container"
    httpx.put(url, headers=headers, timeout=30.0).raise_for_status()
