"""A mail server that records what it is given, with STARTTLS and a login, or without both."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from engine.base import clock

USER, MAIL_PASSWORD = "mailer", "canary-mail-password-31"


class MailServer:
    """What the server got, and how it answers."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.recipients: list[list[str]] = []
        self.answers: list[str] = []
        """The next answers to a mail; then it takes them."""
        self.port = 0

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802 - aiosmtpd's name
        """Take a mail, or answer otherwise."""
        if self.answers:
            return self.answers.pop(0)
        mail = message_from_bytes(envelope.content, policy=policy.default)
        assert isinstance(mail, EmailMessage)
        self.mails.append(mail)
        self.recipients.append(list(envelope.rcpt_tos))
        return "250 taken"

    @staticmethod
    def logs_in(_server: Any, _session: Any, _envelope: Any, _mechanism: str, data: Any) -> AuthResult:
        """Whether the password is right."""
        assert isinstance(data, LoginPassword)
        return AuthResult(success=data == LoginPassword(USER.encode(), MAIL_PASSWORD.encode()), handled=False)


@contextmanager
def mail_server(certificate: Path | None = None) -> Iterator[MailServer]:
    """A running server. certificate: its certificate and key, if it has TLS; it then requires a login."""
    server = MailServer()
    more: dict[str, Any] = {}
    if certificate is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate)
        more = {
            "tls_context": context,
            "require_starttls": True,
            "auth_required": True,
            "authenticator": server.logs_in,
        }
    server.port = _free_port()
    control = Controller(server, hostname="127.0.0.1", port=server.port, **more)
    control.start()
    try:
        yield server
    finally:
        control.stop()


def _free_port() -> int:
    """The controller connects to its own port, so it cannot choose one."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def make_certificate(file: Path) -> Path:
    """Write a certificate for 127.0.0.1 that is its own authority, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "mail")])
    now = clock.utc_now()
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(made.public_bytes(serialization.Encoding.PEM) + secret)
    return file
