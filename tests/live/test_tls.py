"""TLS where a server or an account requires it, also on this machine, where a tunnel may end."""

from contextlib import closing
from typing import Any

import pymysql
import pytest

from engine.base.errors import LoginRefusedError
from engine.source import connect
from engine.source.connect import Endpoint, open_connection
from tests.conftest import ServerFactory
from tests.servers import PASSWORD, USER, create_user


def test_preferred_tries_tls_everywhere(private_server: ServerFactory, flavor: str) -> None:
    """With an account that requires it, and with a server that does. Without TLS the error says what to set."""
    server = private_server(flavor, tls=True)
    create_user(server, "secure", ["SELECT ON *.*"])
    server.execute("ALTER USER secure REQUIRE SSL")
    for host, user in (("127.0.0.1", "secure"), ("127.0.0.1", USER), ("localhost", USER)):
        with closing(open_connection(Endpoint(host, server.port, user, PASSWORD))) as connection:
            assert connection._secure
    server.execute("SET GLOBAL require_secure_transport = ON")
    with closing(open_connection(Endpoint(server.host, server.port, USER, PASSWORD))) as connection:
        assert connection._secure
    with pytest.raises(LoginRefusedError) as refused:
        open_connection(Endpoint(server.host, server.port, USER, PASSWORD, "off"))
    assert "TLS" in refused.value.hint


def test_a_server_without_tls_is_asked_once(
    private_server: ServerFactory, server_with: ServerFactory, flavor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it refuses a login without TLS later, it is asked again: it may offer TLS by then."""
    monkeypatch.setattr(connect, "_without_tls", set())
    opened, tried = pymysql.connect, list[bool]()

    def counting(**options: Any) -> Any:
        tried.append("ssl" in options)
        return opened(**options)

    server, secure = server_with(flavor), private_server(flavor, tls=True)
    secure.execute("SET GLOBAL require_secure_transport = ON")
    monkeypatch.setattr(pymysql, "connect", counting)
    for _ in range(3):
        with closing(open_connection(Endpoint(server.host, server.port, USER, PASSWORD))) as connection:
            assert not connection._secure
    assert tried == [True, False, False, False]
    with pytest.raises(LoginRefusedError, match="Access denied"):
        open_connection(Endpoint(server.host, server.port, USER, "wrong"))
    assert tried[4:] == [False, True]
    connect._without_tls.add((secure.host, secure.port))
    for _ in range(2):
        with closing(open_connection(Endpoint(secure.host, secure.port, USER, PASSWORD))) as connection:
            assert connection._secure
    assert tried[6:] == [False, True, True]
