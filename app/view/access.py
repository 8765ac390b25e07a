"""Who may do what: on this machine alone everybody, elsewhere those who have logged in and are named."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

OPERATOR, VIEWER, STRANGER = "operator", "viewer", ""
LOOPBACK = ("127.0.0.1", "::1", "localhost")
CLAIMS = ("email", "preferred_username", "sub")
"""By which a person is named, the first that the provider tells."""


EVERYBODY = "TIDEMARK_CONSOLE_EVERYBODY_IS_OPERATOR"
"""The variable that says in plain words what a console without a login means. Only `1` says it."""


def closed(address: str | None, environment: Mapping[str, str]) -> bool:
    """Whether a console without a login shows nothing: it listens on more than this machine, and nobody said that it should."""
    return open_to_others(address) and environment.get(EVERYBODY) != "1"


def open_to_others(address: str | None) -> bool:
    """Whether the console listens on more than this machine. address: Streamlit's `server.address`; None listens everywhere."""
    return address not in LOOPBACK


def name_of(claims: Mapping[str, Any]) -> str:
    """What a person is called in the journal. An address that its provider did not verify names nobody."""
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
