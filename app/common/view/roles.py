"""Roles. A console that listens on loopback only needs no login; any other one needs a login and configured roles."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

OPERATOR, VIEWER, STRANGER = "operator", "viewer", ""
LOOPBACK = ("127.0.0.1", "::1", "localhost")
USUAL_CLAIM = "email"
"""The claim that names a person, unless `[roles]` names another one as `claim`."""
_VERIFIABLE = ("email", "phone_number")
"""Claims that people enter. They count only if the provider says, in a claim of its own, that it has verified them."""
_CHOSEN = frozenset(
    (
        "preferred_username",
        "nickname",
        "name",
        "given_name",
        "middle_name",
        "family_name",
        "profile",
        "website",
        "picture",
    )
)
"""Claims that people choose and no provider verifies (OpenID Connect Core, section 5.1). They never count."""


EVERYBODY = "TIDEMARK_CONSOLE_EVERYBODY_IS_OPERATOR"
"""The environment variable that opens a console without a login to everybody. Only the value `1` counts."""


def closed(address: str | None, environment: Mapping[str, str]) -> bool:
    """Whether a console without a login shows nothing.

    It shows nothing if it listens on more than loopback, and `EVERYBODY` does not allow that.
    """
    return open_to_others(address) and environment.get(EVERYBODY) != "1"


def open_to_others(address: str | None) -> bool:
    """Whether the console listens on more than loopback.

    address: Streamlit's `server.address`; None means every interface.
    """
    return address not in LOOPBACK


def name_of(claims: Mapping[str, Any], roles: Mapping[str, Any]) -> str:
    """A person's name, as roles are given to it and the journal records it.

    Empty if `nameless` says why there is none.
    """
    return "" if nameless(claims, roles) else str(claims[_claim(roles)])


def nameless(claims: Mapping[str, Any], roles: Mapping[str, Any]) -> str:
    """Why the login gives no name, as a sentence; empty if it gives one.

    roles: the section `[roles]`, whose `claim` says which claim is the name.
    """
    claim = _claim(roles)
    value = claims.get(claim)
    if claim in _CHOSEN or claim.endswith("_verified"):
        return f"People choose the claim {claim} themselves, so it gives no role."
    if not isinstance(value, str) or not value:
        return f"The login has no claim {claim}."
    if claim in _VERIFIABLE and claims.get(f"{claim}_verified") is not True:
        return f"The login does not say that {claim} was verified ({claim}_verified is not true)."
    return ""


def _claim(roles: Mapping[str, Any]) -> str:
    return str(roles.get("claim", USUAL_CLAIM))


def role_of(name: str, roles: Mapping[str, Any]) -> str:
    """The role of a person who has logged in. roles: "operators" and "viewers", lists of names with `*`."""
    if not name:
        return STRANGER
    for role, key in ((OPERATOR, "operators"), (VIEWER, "viewers")):
        globs = roles.get(key) or ()
        if any(fnmatchcase(name.casefold(), str(glob).casefold()) for glob in _list(globs)):
            return role
    return STRANGER


def _list(value: Any) -> Sequence[Any]:
    return [value] if isinstance(value, str) else list(value)
