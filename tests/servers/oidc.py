"""A provider of OpenID Connect on this machine, small but real.

Discovery, a page to choose who one is, signed tokens, keys.

with provider(["ada@example.com", "bob@example.com"]) as issuer:
    ...  # issuer + "/.well-known/openid-configuration"
"""

import base64
import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qs, urlencode, urlparse

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

CLIENT, SECRET = "tidemark", "client-secret"
_KEY = "k1"


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _number(value: int) -> str:
    return _encoded(value.to_bytes((value.bit_length() + 7) // 8, "big"))


class _Provider(ThreadingHTTPServer):
    def __init__(self, people: Sequence[str], claims: Mapping[str, Mapping[str, Any]]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.people, self.claims = people, claims
        self.issuer = f"http://127.0.0.1:{self.server_address[1]}"
        self.key = rsa.generate_private_key(65537, 2048)
        self.codes: dict[str, tuple[str, str]] = {}

    def token(self, person: str, nonce: str) -> str:
        """A signed statement of the user's identity."""
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT, "sub": person, "email": person, "email_verified": True}
        claims |= self.claims.get(person, {})
        claims |= {"iat": now, "exp": now + 3600, **({"nonce": nonce} if nonce else {})}
        parts = ({"alg": "RS256", "kid": _KEY, "typ": "JWT"}, claims)
        signed = ".".join(_encoded(json.dumps(part).encode()) for part in parts)
        return f"{signed}.{_encoded(self.key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


class _Handler(BaseHTTPRequestHandler):
    server: _Provider

    def do_GET(self) -> None:
        url = urlparse(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        if url.path == "/.well-known/openid-configuration":
            self._json(_configuration(self.server.issuer))
        elif url.path == "/jwks":
            numbers = self.server.key.public_key().public_numbers()
            key = {"kty": "RSA", "kid": _KEY, "use": "sig", "alg": "RS256"}
            self._json({"keys": [{**key, "n": _number(numbers.n), "e": _number(numbers.e)}]})
        elif url.path == "/authorize" and "person" not in query:
            links = (
                f'<a href="?{escape(urlencode({**query, "person": p}))}">{escape(p)}</a><br>'
                for p in self.server.people
            )
            self._answer(200, "text/html", "".join(links).encode())
        elif url.path == "/authorize":
            code = _encoded(str(time.monotonic_ns()).encode())
            self.server.codes[code] = query["person"], query.get("nonce", "")
            back = urlencode({"code": code, "state": query["state"]})
            self.send_response(302)
            self.send_header("Location", f"{query['redirect_uri']}?{back}")
            self.end_headers()
        else:
            self._answer(404, "text/plain", b"")

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        person, nonce = self.server.codes.pop(form["code"][0])
        token = {"access_token": "a", "token_type": "Bearer", "expires_in": 3600}
        self._json({**token, "id_token": self.server.token(person, nonce)})

    def _json(self, value: Any) -> None:
        self._answer(200, "application/json", json.dumps(value).encode())

    def _answer(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


def _configuration(issuer: str) -> dict[str, Any]:
    return {
        "issuer": issuer,
        "authorization_endpoint": f"{issuer}/authorize",
        "token_endpoint": f"{issuer}/token",
        "jwks_uri": f"{issuer}/jwks",
        "response_types_supported": ["code"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256"],
    }


@contextmanager
def provider(people: Sequence[str], claims: Mapping[str, Mapping[str, Any]] = MappingProxyType({})) -> Iterator[str]:
    """The issuer's address, while the provider runs. claims: what some people's tokens say instead of the usual."""
    server = _Provider(people, claims)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.issuer
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
