"""Mails over a real SMTP server: with TLS and a login, refused, deferred, and without secrets in any answer."""

import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from engine.alerting.notify.channels import deliver
from engine.base.errors import SpecError
from engine.spec.alert_settings import Route
from tests.support.mail_server import MAIL_PASSWORD, MailServer, mail_server, make_certificate
from tests.unit.alerting.notify.notices import notice, spec_with

ROUTE = """
[alerts.routes.team]
type = "email"
host = "127.0.0.1"
port = {port}
sender = "tidemark@example.com"
recipients = ["ada@example.com", "bob@example.com"]
"""
SECURE = 'tls_ca = "mail.pem"\nuser = "mailer"\npassword_file = "secret"\n'


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[MailServer]:
    """A server with STARTTLS that requires a login; the password is in a file beside the spec."""
    (tmp_path / "secret").write_text(f"{MAIL_PASSWORD}\n")
    with mail_server(make_certificate(tmp_path / "mail.pem")) as server:
        yield server


def route(folder: Path, port: int, more: str = SECURE) -> Route:
    """The route to a server."""
    return spec_with(folder, ROUTE.format(port=port) + more).alerts.routes["team"]


def test_an_alert_and_its_end_are_one_thread(secure: MailServer, tmp_path: Path) -> None:
    """To all recipients, with what to do, over TLS; nothing from an error can become a header."""
    spec, way = spec_with(tmp_path, ""), route(tmp_path, secure.port)
    first = notice(spec, table="d.a\r\nBcc: eve@example.com")
    for one in (first, replace(first, event="alert.cleared", message="It is back.", hint="")):
        assert deliver("team", way, one).problem == ""
    raised, cleared = secure.mails
    assert secure.recipients[0] == ["ada@example.com", "bob@example.com"]
    assert (raised["From"], raised["Bcc"]) == ("tidemark@example.com", None)
    assert raised["Subject"].startswith("[tidemark] shop: Table stopped (d.a")
    assert cleared["Subject"].startswith("[tidemark] shop: cleared: Table stopped")
    assert raised["References"] == cleared["References"]
    assert "What to do: Do it." in raised.get_content()
    assert "critical; since 2026-01-31 15:30:17 UTC" in raised.get_content()


def test_a_wrong_password_is_permanent_and_a_new_one_is_read(secure: MailServer, tmp_path: Path) -> None:
    """Without a restart; the password is in no answer."""
    way, one = route(tmp_path, secure.port), notice(spec_with(tmp_path, ""))
    (tmp_path / "secret").write_text("canary-wrong")
    answer = deliver("team", way, one)
    assert answer.problem.startswith("it answered 535")
    assert not answer.retry
    assert "canary" not in answer.problem
    (tmp_path / "secret").write_text(MAIL_PASSWORD)
    assert deliver("team", way, one).problem == ""


def test_a_certificate_that_nobody_knows_is_refused(secure: MailServer, tmp_path: Path) -> None:
    """Before the password is sent."""
    way = route(tmp_path, secure.port, SECURE.replace('tls_ca = "mail.pem"', ""))
    answer = deliver("team", way, notice(spec_with(tmp_path, "")))
    assert "CERTIFICATE_VERIFY_FAILED" in answer.problem
    assert secure.mails == []


def test_what_the_server_answers_decides_about_another_try(tmp_path: Path) -> None:
    """4xx: later; 5xx: never. A server without TLS is not used, unless the route says so."""
    with mail_server() as server:
        one = notice(spec_with(tmp_path, ""))
        refused = deliver("team", route(tmp_path, server.port, ""), one)
        assert "STARTTLS" in refused.problem
        assert not refused.retry
        open_way = route(tmp_path, server.port, 'tls = "off"')
        server.answers = ["451 greylisted, come back", "554 no"]
        assert (deliver("team", open_way, one).retry, deliver("team", open_way, one).retry) == (True, False)
        assert deliver("team", open_way, one).problem == ""
        assert len(server.mails) == 1


def test_a_server_that_is_down_is_worth_another_try(tmp_path: Path) -> None:
    """Nobody listens there."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        answer = deliver("team", route(tmp_path, taken.getsockname()[1], ""), notice(spec_with(tmp_path, "")))
    assert "refused" in answer.problem
    assert answer.retry


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        ('user = "mailer"', "user needs password_env or password_file"),
        ('user = "mailer"\npassword_env = "P"\ntls = "off"', "a password is not sent without encryption"),
        ('url_env = "U"', "url_env does not belong to a route of the type email"),
        ('sender = "nobody"', "'nobody' is not a mail address"),
        ("password = 'hunter2'", "the nearest known key is 'password_env'"),
    ],
)
def test_a_route_that_cannot_work_is_refused(tmp_path: Path, more: str, fault: str) -> None:
    """With the spec, before anything starts; no value of a secret is shown."""
    text = ROUTE.format(port=25)
    if more.startswith("sender"):
        text = text.replace('sender = "tidemark@example.com"', "")
    with pytest.raises(SpecError) as raised:
        spec_with(tmp_path, text + more)
    assert fault in raised.value.message
    assert "hunter2" not in raised.value.message
