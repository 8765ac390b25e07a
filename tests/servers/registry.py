"""A schema registry on this machine: Apicurio, in memory, from Maven. It has Confluent's interface."""

import os
import shutil
import signal
import subprocess
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

from tests.servers.cache import cache_folder, locked
from tests.servers.maven import fetched_jars
from tests.servers.server import free_port
from tests.support.patience import PATIENCE_S

VERSION = "2.6.13.Final"
_ARCHIVE = f"apicurio-registry-app-all-{VERSION}.tar.gz"
_DEPENDENCIES = f"""
    <dependency org="io.apicurio" name="apicurio-registry-app" rev="{VERSION}" transitive="false">
      <artifact name="apicurio-registry-app" type="tar.gz" ext="tar.gz" m:classifier="all"/>
    </dependency>
"""
_JAVA = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx384m"]


def program() -> Path:
    """The folder of the unpacked program, once per user."""
    folder = cache_folder() / f"apicurio-program-{VERSION}"
    archive = fetched_jars(f"apicurio-{VERSION}", _DEPENDENCIES, _ARCHIVE, ("tar.gz",)) / _ARCHIVE
    with locked(folder.name):
        if not folder.exists():
            beside = folder.with_name(f".{folder.name}")
            shutil.rmtree(beside, ignore_errors=True)
            with tarfile.open(archive) as packed:
                packed.extractall(beside, filter="data")
            beside.rename(folder)
    return folder


class SchemaServer:
    """A registry that can be stopped and started. It forgets its schemas."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Of Confluent's interface."""
        return f"http://127.0.0.1:{self.port}/apis/ccompat/v7"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        (jar,) = program().glob("**/*-runner.jar")
        listen = ["-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={self.port}"]
        command = ["java", *_JAVA, *listen, "-jar", str(jar)]
        with (self._folder / "registry.log").open("ab") as log:
            self._process = subprocess.Popen(command, cwd=self._folder, stdout=log, stderr=log, start_new_session=True)
        deadline_s = time.monotonic() + PATIENCE_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                self.stop()
                raise RuntimeError(
                    f"The registry has not started: {(self._folder / 'registry.log').read_text()[-3000:]}"
                )
            time.sleep(0.1)

    def _answers(self) -> bool:
        with suppress(httpx.HTTPError):
            return httpx.get(f"{self.url}/subjects", timeout=2).is_success
        return False

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None


@contextmanager
def schema_server(folder: Path) -> Iterator[SchemaServer]:
    """A registry until the block ends. folder: for its log."""
    server = SchemaServer(folder)
    try:
        server.start()
        yield server
    finally:
        server.stop()
