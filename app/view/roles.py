"""Roles. A console that listens on loopback only needs no login; any other one needs a login and configured roles."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

OPERATOR, VIEWER, STRANGER = "operator", "viewer", ""
LOOPBACK = ("127.0.0.1", "::1", "localhost")
CLAIMS = ("email", "preferred_username", "sub")
"""The claims that name a person, in order of preference."""


EVERYBODY = "TIDEMARK_CONSOLE_EVERYBODY_IS_OPERATOR"
"""The environment variable that opens a console without a login to everybody. Only the value `1` counts."""


def closed(address: str | None, environment: Mapping[str, str]) -> bool:
    """Whether a console without a login shows nothing: it listens on more than loopback, and `EVERYBODY` does not allow that."""
    return open_to_others(address) and environment.get(EVERYBODY) != "1"


def open_to_others(address: str | None) -> bool:
    """Whether the console listens on more than loopback. address: Streamlit's `server.address`; None means every interface."""
    return address not in LOOPBACK


def name_of(claims: Mapping[str, Any]) -> str:
    """A person's name, as the journal records it. An e-mail address that the provider has not verified does not count."""
    for claim in CLAIMS:
        value = claims.get(claim)
        if isinstance(value, str) and value and not (claim == "email" and claims.get("email_verified") is False):
            return value
    return ""


def role_of(name: str, roles: Mapping[str, Any]) -> str:
    """The role of a person who has logged in. roles: "operators" and "viewers", lists of names with `*`."""
    if not name:
        return STRANGER
    for role, key in ((OPERATOR, "operators"), (VIEWER, "viewers")):
        wanted = roles.get(key) or ()
        if any(fnmatchcase(name.casefold(), str(glob).casefold()) for glob in _list(wanted)):
            return role
    return STRANGER


def _list(value: Any) -> Sequence[Any]:
    return [value] if isinstance(value, str) else list(value)
