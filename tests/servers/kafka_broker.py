"""A Kafka broker on this machine: one node that is its own controller, from the jars of Maven."""

import base64
import os
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.servers.maven import fetched_jars
from tests.servers.server import free_port
from tests.support.patience import PATIENCE_S

VERSION = "4.4.0"
_DEPENDENCIES = f'<dependency org="org.apache.kafka" name="kafka_2.13" rev="{VERSION}" conf="default->default"/>'
_JAVA = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx384m"]
_ONE = (
    "offsets.topic.replication.factor",
    "offsets.topic.num.partitions",
    "transaction.state.log.replication.factor",
    "transaction.state.log.min.isr",
    "transaction.state.log.num.partitions",
    "share.coordinator.state.topic.replication.factor",
    "share.coordinator.state.topic.min.isr",
    "share.coordinator.state.topic.num.partitions",
)


def jars() -> Path:
    """The folder of its jars."""
    return fetched_jars(f"kafka-{VERSION}", _DEPENDENCIES, f"kafka_2.13-{VERSION}.jar")


class Broker:
    """A broker that can be stopped, killed, frozen and started again, on the same port with the same data."""

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self._folder = folder
        self.port, controller = free_port(), free_port()
        properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": str(folder / "data"),
            "auto.create.topics.enable": "false",
            "group.initial.rebalance.delay.ms": "0",
            "broker.session.timeout.ms": "1500",
            "broker.heartbeat.interval.ms": "500",
            **dict.fromkeys(_ONE, "1"),
            **(settings or {}),
        }
        self._properties = folder / "server.properties"
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        self._process: subprocess.Popen[bytes] | None = None
        cluster = base64.b64encode(uuid.uuid4().bytes, b"_A").rstrip(b"=").decode()  # it may not begin with a dash
        command = [*self._java(), "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(self._properties)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"The broker's disk cannot be formatted: {(done.stdout + done.stderr)[-2000:]}")

    @staticmethod
    def _java() -> list[str]:
        return ["java", *_JAVA, "-cp", f"{jars()}/*"]

    @property
    def address(self) -> str:
        """Where it answers."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with (self._folder / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._java(), "kafka.Kafka", str(self._properties)],
                stdout=log,
                stderr=log,
                cwd=self._folder,
                env={**os.environ, "LOG_DIR": str(self._folder)},
            )
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 0.5).close()
            except OSError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    log_text = (self._folder / "broker.log").read_text()
                    raise RuntimeError(f"The broker has not started: {log_text[-3000:]}") from None
                time.sleep(0.05)
            else:
                return

    def kill(self) -> None:
        """As a power cut ends it."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it in order."""
        self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait()
            self._process = None


@contextmanager
def kafka_broker(folder: Path, settings: Mapping[str, str] | None = None) -> Iterator[Broker]:
    """A broker until the block ends. folder: for its data."""
    broker = Broker(folder, settings)
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()
