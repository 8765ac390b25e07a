"""Iceberg's own REST catalog on this machine: the servlet of its tests, with a SQLite database behind it.

Its jars come from Maven. What Spark has already is taken from there.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from tests.servers.maven import fetched_jars, spark_jars
from tests.servers.server import free_port

VERSION = "1.11.0"
_JETTY, _SQLITE = "12.1.0", "3.50.3.0"
_DEPENDENCIES = f"""
    <dependency org="org.apache.iceberg" name="iceberg-core" rev="{VERSION}" conf="default->default">
      <artifact name="iceberg-core" type="jar"/>
      <artifact name="iceberg-core" type="test-jar" ext="jar" m:classifier="tests"/>
    </dependency>
    <dependency org="org.eclipse.jetty.ee10" name="jetty-ee10-servlet" rev="{_JETTY}" conf="default->default"/>
    <dependency org="org.xerial" name="sqlite-jdbc" rev="{_SQLITE}" conf="default->default"/>
"""
_OF_SPARK = ("hadoop-client-api-*", "hadoop-client-runtime-*", "avro-1*", "jcl-over-slf4j-*", "py4j-*")
_JAVA = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m"]


def jars() -> Path:
    """The folder of its jars."""
    return fetched_jars(
        f"iceberg-rest-{VERSION}", _DEPENDENCIES, f"iceberg-core-tests-{VERSION}.jar", ("jar", "test-jar")
    )


class RestServer:
    """A catalog that can be stopped and started."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        command = [sys.executable, "-m", "tests.servers.rest_catalog", str(self._folder), str(self._port)]
        with (self._folder / "catalog.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        assert self._process.stdout is not None
        if self._process.stdout.readline().strip() != b"ready":
            raise RuntimeError(
                f"The REST catalog has not started: {(self._folder / 'catalog.log').read_text()[-3000:]}"
            )

    def stop(self) -> None:
        """End it. Its tables stay."""
        if self._process is not None:
            self._process.communicate()  # the end of its input ends it
            self._process = None


@contextmanager
def rest_server(folder: Path) -> Iterator[RestServer]:
    """A catalog until the block ends. folder: for its database."""
    server = RestServer(folder)
    try:
        server.start()
        yield server
    finally:
        server.stop()


def _serve(folder: Path, port: int) -> None:
    """Run it in a JVM of its own until the input ends."""
    others = [str(jar) for pattern in _OF_SPARK for jar in spark_jars(pattern)]
    gateway_port, token = launch_gateway(
        classpath=os.pathsep.join([f"{jars()}/*", *others]),
        javaopts=_JAVA,
        die_on_exit=True,
        redirect_stdout=sys.stderr,
        redirect_stderr=sys.stderr,
        enable_auth=True,
    )
    parameters = GatewayParameters(port=gateway_port, auth_token=token, auto_convert=True)
    gateway = JavaGateway(gateway_parameters=parameters)
    _start(gateway.jvm, folder, port)
    print("ready", flush=True)
    sys.stdin.read()
    gateway.shutdown()


def _start(jvm: Any, folder: Path, port: int) -> None:
    settings = {
        "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        "uri": f"jdbc:sqlite:{folder}/catalog.db",
        "jdbc.schema-version": "V1",
        "warehouse": f"{folder}/warehouse",
    }
    iceberg, jetty = jvm.org.apache.iceberg, jvm.org.eclipse.jetty
    backend = iceberg.CatalogUtil.buildIcebergCatalog("tests", settings, jvm.org.apache.hadoop.conf.Configuration())
    servlet = iceberg.rest.RESTCatalogServlet(iceberg.rest.RESTCatalogAdapter(backend))
    context = jetty.ee10.servlet.ServletContextHandler(jetty.ee10.servlet.ServletContextHandler.NO_SESSIONS)
    context.addServlet(jetty.ee10.servlet.ServletHolder(servlet), "/*")
    server = jetty.server.Server()
    connector = jetty.server.ServerConnector(server)
    connector.setHost("127.0.0.1")
    connector.setPort(port)
    server.addConnector(connector)
    server.setHandler(context)
    server.start()


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), int(sys.argv[2]))
