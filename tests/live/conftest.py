"""Fixtures of the live tests: pipelines whose runners end with the test."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.support.known_positions import ServerFactory, Written
from tests.live.support.pipeline import Pipeline
from tests.servers import Server
from tests.servers.azure import CREDENTIALS as AZURE_CREDENTIALS
from tests.servers.azure import AzureServer, azure_server, azurite
from tests.servers.bucket import CREDENTIALS, BucketServer, NoBucketError, bucket_server
from tests.servers.drivers import Drivers
from tests.servers.hosts import Hosts
from tests.servers.pool import Pool
from tests.servers.postgres import Postgres, postgres
from tests.support.store_faults import StoreFaults, store_faults
from tests.unit.destination.support import DATABASE, Kind

_STATE = "tidemark_state"
PipelineFactory = Callable[..., Pipeline]
LakeFactory = Callable[..., Pipeline]


@pytest.fixture
def new_pipeline(tmp_path: Path, drivers: Drivers, hosts: Hosts) -> Iterator[PipelineFactory]:
    """``new_pipeline(server, database, **settings)``: a pipeline in this test's folder, unless another is named."""
    made: list[Pipeline] = []

    def factory(server: Server, database: str, folder: Path = tmp_path, **settings: Any) -> Pipeline:
        made.append(Pipeline(server, database, folder, drivers=drivers, hosts=hosts, **settings))
        return made[-1]

    yield factory
    for pipeline in made:
        pipeline.kill()


@pytest.fixture
def written(flavor: str, private_server: ServerFactory) -> Written:
    """A private server whose binlog positions are known; once per flavor."""
    return Written(private_server(flavor, **({"log_slave_updates": 1} if flavor == "mariadb" else {})))


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BucketServer]:
    """A store that speaks S3; its credentials are in the environment."""
    with pytest.MonkeyPatch.context() as environment:
        for name, value in CREDENTIALS.items():
            environment.setenv(name, value)
        with bucket_server(tmp_path_factory.mktemp("bucket")) as running:
            yield running


@pytest.fixture(scope="module")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzureServer]:
    """Azure's emulator; its credentials are in the environment. Skips without npm, which installs it."""
    try:
        command = azurite()
    except NoBucketError as error:
        pytest.skip(str(error))
    if command is None:
        pytest.skip("npm and node are missing, which Azure's emulator needs")
    with pytest.MonkeyPatch.context() as environment:
        for name, value in AZURE_CREDENTIALS.items():
            environment.setenv(name, value)
        with azure_server(command, tmp_path_factory.mktemp("azure")) as running:
            yield running


@pytest.fixture
def faults(bucket: BucketServer) -> Iterator[StoreFaults]:
    """A proxy before the store."""
    with store_faults(bucket.port) as proxy:
        yield proxy


@pytest.fixture
def new_lake(
    server: Server,
    database: str,
    new_pipeline: PipelineFactory,
    bucket: BucketServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> LakeFactory:
    """``new_lake("bucket")``: a pipeline whose lake is in a bucket, and its state in a bucket or a folder."""
    environment = {
        **CREDENTIALS,
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{bucket.port}",
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
        "TIDEMARK_HOME": str(tmp_path / "home"),
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    def factory(state: str, **settings: Any) -> Pipeline:
        pipeline = new_pipeline(
            server,
            database,
            chunk_rows=500,
            poll=0.2,
            merge=0.5,
            spark='master = "local[2]"',
            environment=environment,
            **settings,
        )
        text = pipeline.spec.read_text().replace('path = "lake"', f'path = "s3://lake/{database}/lake"')
        if state == "bucket":
            if not bucket.replaces:
                pytest.skip(
                    "the server replaces whatever the condition says: Go is missing, which builds the right one"
                )
            text = f'state = "s3://lake/{database}/state"\n{text}'
            pipeline.home = pipeline.home / "runner"
        pipeline.spec.write_text(text)
        return pipeline

    return factory


@pytest.fixture(scope="module")
def postgresql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """A PostgreSQL for the tests of this file."""
    with postgres(tmp_path_factory.mktemp("postgres")) as running:
        yield running


@pytest.fixture(params=["postgresql", "mysql", "mariadb", "duckdb"])
def database_address(
    request: pytest.FixtureRequest, servers: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """Each database in turn: `[sink.database]`."""
    found: dict[str, Any]
    if request.param == "postgresql":
        port = request.getfixturevalue("postgresql").port
        found = {"host": "127.0.0.1", "port": port, "user": "tidemark", "database": "postgres", "state_schema": _STATE}
    elif request.param == "duckdb":
        found = {"file": str(tmp_path / "lake.duckdb")}
    else:
        server = servers.get(request.param)
        server.execute(f"CREATE DATABASE IF NOT EXISTS {_STATE}")
        found = {"host": "127.0.0.1", "port": server.port, "user": "root", "database": _STATE}
    monkeypatch.setenv(DATABASE, json.dumps(found))
    return found


@pytest.fixture
def database_kind(database_address: dict[str, Any]) -> Kind:
    """The kind of destination of `database_address`."""
    if "file" in database_address:
        return "duckdb"
    return "postgresql" if "state_schema" in database_address else "mysql"
