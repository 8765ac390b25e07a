"""The password of an endpoint: read from its file again at each login."""

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from engine.base import redaction
from engine.source import connect
from engine.source.connect import Endpoint
from engine.source.endpoint import endpoint_of
from engine.spec.settings import Source
from tests.support.mail_server import make_certificate


def endpoint(file: Path) -> Endpoint:
    """The endpoint of a spec with this file."""
    return endpoint_of(Source(host="db", user="tidemark", password_file=file, tables=("d.*",)))


def test_a_changed_file_counts_from_the_next_login(tmp_path: Path) -> None:
    """In every copy of the endpoint. What is read is known as a secret at once."""
    file = tmp_path / "secret"
    file.write_text("tide-Mark-1\n")
    first = endpoint(file)
    copy = replace(first, identity="a server")
    assert (first.current_password(), copy.current_password()) == ("tide-Mark-1", "tide-Mark-1")
    file.write_text("tide-Mark-2\n")
    assert (first.current_password(), copy.current_password()) == ("tide-Mark-2", "tide-Mark-2")
    assert redaction.redact("refused tide-Mark-2") == "refused ***"
    assert first == endpoint(file), "a session that is open stays the session of this endpoint"


def test_while_a_file_is_replaced_the_last_password_counts(tmp_path: Path) -> None:
    """It may be gone or empty for a moment."""
    file = tmp_path / "secret"
    file.write_text("tide-Mark-3")
    found = endpoint(file)
    file.write_text("tide-Mark-4")
    assert found.current_password() == "tide-Mark-4"
    file.write_text("")
    assert found.current_password() == "tide-Mark-4"
    file.unlink()
    assert found.current_password() == "tide-Mark-4"


def test_a_reader_without_the_file_gets_the_password_of_the_moment_at_which_it_is_sent(tmp_path: Path) -> None:
    """As on another host. An endpoint without a file keeps its password."""
    file = tmp_path / "secret"
    file.write_text("tide-Mark-5")
    found = endpoint(file)
    file.write_text("tide-Mark-6")
    sent = pickle.loads(pickle.dumps(found))  # noqa: S301 - our own
    assert (sent.password, sent) == ("tide-Mark-6", found)
    plain = pickle.loads(pickle.dumps(Endpoint("db", 3306, "u", "p")))  # noqa: S301 - our own
    assert plain.current_password() == "p"


def test_a_reader_without_the_file_gets_the_certificates_too(tmp_path: Path) -> None:
    """Its own file counts, if it has one; without both, it is told which file is missing."""
    certificate = make_certificate(tmp_path / "ca.pem")
    certificate.write_text(f"# Főtanúsítvány\n{certificate.read_text()}", encoding="utf-8")
    verified = Endpoint("db", 3306, "u", "p", tls="verify", tls_ca=str(certificate))
    sent = pickle.loads(pickle.dumps(verified))  # noqa: S301 - our own
    for one in (verified, sent):
        assert connect._tls(one).get_ca_certs()
    certificate.unlink()
    (authority,) = connect._tls(sent).get_ca_certs()
    assert (("commonName", "mail"),) in authority["subject"]
    with pytest.raises(FileNotFoundError):
        connect._tls(verified)
