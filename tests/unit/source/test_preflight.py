"""The preflight check of server ids, with servers that refuse to show replicas."""

from typing import Any

import pytest

from engine.base.errors import PreflightError, SourceAwayError, TidemarkError
from engine.source import preflight
from engine.source.connect import Endpoint, Server
from engine.source.preflight import Check, Context
from engine.spec.settings import Source

MARIADB = Server("mariadb", (10, 11, 6), "10.11.6-MariaDB", "mariadb-server-id-1")
REFUSED = PreflightError("The statement SHOW SLAVE HOSTS failed: Access denied (error 1227).")


def checked(monkeypatch: pytest.MonkeyPatch, answer: list[dict[str, Any]] | TidemarkError, server_id: int = 1) -> Check:
    """The check for a pipeline with the ids 5000 to 9095 and this answer of the server. server_id: the server's own."""

    def query(*_: object) -> list[dict[str, Any]]:
        if isinstance(answer, TidemarkError):
            raise answer
        return answer

    monkeypatch.setattr(preflight, "query", query)
    endpoint, source = Endpoint("db", 3306, "tidemark", ""), Source(host="db", user="tidemark", tables=("shop.*",))
    variables = {"server_id": str(server_id)}
    return preflight._server_ids(Context(endpoint, source, 5000, None, MARIADB, variables))


def test_a_right_that_nothing_needs_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without REPLICATION MASTER ADMIN MariaDB shows no replicas: the check passes and says what it did not see."""
    found = checked(monkeypatch, REFUSED)
    assert (found.outcome, found.fix) == ("ok", "")
    assert found.actual == "in use: 1; replicas are not shown to this user"


def test_the_servers_own_id_is_known_without_any_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """It clashes whether or not replicas are shown."""
    assert checked(monkeypatch, REFUSED, server_id=5001).outcome == "fail"


@pytest.mark.parametrize(("replica", "outcome"), [(4999, "ok"), (5000, "fail"), (9095, "fail"), (9096, "ok")])
def test_a_replica_that_is_shown_must_not_have_one_of_the_ids(
    monkeypatch: pytest.MonkeyPatch, replica: int, outcome: str
) -> None:
    """Both ends of the range are tested."""
    assert checked(monkeypatch, [{"Server_id": replica}]).outcome == outcome


def test_a_source_that_goes_away_is_no_green_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a refusal is harmless."""
    assert checked(monkeypatch, SourceAwayError("gone")).outcome == "warn"
