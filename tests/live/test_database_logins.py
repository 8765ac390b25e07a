"""Databases that want TLS and a password: with real certificates, the documented privileges, and what is refused."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.base.store_errors import StoreAccessError
from engine.destination.database.database_trial import ask, tried
from engine.spec.sink_settings import Sink
from tests.servers.pool import Pool
from tests.servers.postgres import Postgres
from tests.servers.users import create_user
from tests.support.mail_server import make_certificate
from tests.unit.destination.support import DATABASE, World, publish_story, schema_of, story
from tests.unit.destination.test_contract import table_rows

_PASSWORD = "correct horse"


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Postgres, Path]]:
    """A PostgreSQL with TLS and a user who needs it and a password, and the certificate of its authority."""
    folder = tmp_path_factory.mktemp("postgres")
    certificate, key = _pair(folder / "server.pem")
    server = Postgres(folder)
    (folder / "ca.pem").write_text(certificate)
    (folder / "data/server.crt").write_text(certificate)
    (folder / "data/server.key").write_text(key)
    (folder / "data/server.key").chmod(0o600)
    access = ["hostssl all lake 127.0.0.1/32 scram-sha-256", "host all tidemark 127.0.0.1/32 trust", ""]
    (folder / "data/pg_hba.conf").write_text("\n".join(access))
    server.start("-c", "ssl=on")
    server.run(
        f"CREATE USER lake PASSWORD '{_PASSWORD}'",
        "GRANT CREATE ON DATABASE postgres TO lake",
        "GRANT CREATE ON SCHEMA public TO lake",
        f"CREATE USER poor PASSWORD '{_PASSWORD}'",
    )
    yield server, folder / "ca.pem"
    server.stop()


def _pair(file: Path) -> tuple[str, str]:
    """A certificate and its key."""
    certificate, end, key = make_certificate(file).read_text().partition("-----END CERTIFICATE-----\n")
    return certificate + end, key


@pytest.fixture(params=["postgresql", "mysql", "mariadb"])
def address(request: pytest.FixtureRequest, servers: Pool, tmp_path: Path) -> dict[str, Any]:
    """The settings of each database with TLS, for a user with the documented privileges."""
    (tmp_path / "password").write_text(_PASSWORD)
    own = {"host": "127.0.0.1", "user": "lake", "password_file": str(tmp_path / "password"), "tls": "verify"}
    if request.param == "postgresql":
        server, ca = request.getfixturevalue("secure")
        return own | {"port": server.port, "database": "postgres", "state_schema": "public", "ca": str(ca)}
    mysql = servers.get(request.param, tls=True)
    state, schema = f"{schema_of(tmp_path)}_state", schema_of(tmp_path)
    mysql.execute(f"CREATE DATABASE {state}")
    create_user(mysql, "lake", [f"ALL ON {state}.*", f"ALL ON {schema}.*"], _PASSWORD)
    return own | {"port": mysql.port, "database": state, "ca": str(mysql.ca_file)}


def _sink(address: dict[str, Any], folder: Path) -> Sink:
    kind = "postgresql" if "state_schema" in address else "mysql"
    return Sink.model_validate({"type": kind, "path": folder / "staged", "database": address})


def test_a_story_over_tls_by_the_documented_privileges(
    address: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tried, written and read back by the same user."""
    trial = tried(_sink(address, tmp_path))
    assert not trial.fault, trial
    monkeypatch.setenv(DATABASE, json.dumps(address))
    kind: Any = "postgresql" if "state_schema" in address else "mysql"
    story(world := World(tmp_path, kind=kind))
    publish_story(world, tmp_path, (2,))
    assert table_rows(kind, tmp_path) == [(2, 2), (3, 3)]


def test_a_wrong_password_is_a_refusal(address: dict[str, Any], tmp_path: Path) -> None:
    """It is no server that is away, and the password is in no message."""
    (tmp_path / "password").write_text("wrong battery")
    trial = tried(_sink(address, tmp_path))
    assert trial.fault.startswith("The database refuses the user"), trial
    assert "wrong battery" not in trial.fault + trial.remedy
    with pytest.raises(StoreAccessError):
        ask(_sink(address, tmp_path))


def test_an_unknown_authority_is_named(address: dict[str, Any], tmp_path: Path) -> None:
    """Its certificate is not accepted in silence."""
    (tmp_path / "other-ca.pem").write_text(_pair(tmp_path / "other.pem")[0])
    trial = tried(_sink(address | {"ca": str(tmp_path / "other-ca.pem")}, tmp_path))
    assert "certificate" in trial.fault, trial


@pytest.mark.parametrize("address", ["postgresql"], indirect=True)
def test_a_missing_privilege_is_a_refusal(address: dict[str, Any], tmp_path: Path) -> None:
    """The remedy names the page with the privileges."""
    trial = tried(_sink(address | {"state_schema": "secret"}, tmp_path))
    assert not trial.fault, "it may create schemas"
    server_user = address | {"user": "poor"}
    trial = tried(_sink(server_user, tmp_path))
    assert trial.fault.startswith("The database refuses the user"), trial
    assert "docs/databases.md" in trial.remedy
