"""Roles."""

import pytest

from app.common.view.roles import (
    EVERYBODY,
    OPERATOR,
    STRANGER,
    VIEWER,
    closed,
    name_of,
    nameless,
    open_to_others,
    role_of,
)

ROLES = {"operators": ["Ada@example.com", "ops-*"], "viewers": "*@example.com"}


def test_only_loopback_is_closed_to_others() -> None:
    """For Streamlit, None means every interface."""
    assert not any(map(open_to_others, ("127.0.0.1", "::1", "localhost")))
    assert all(map(open_to_others, (None, "", "0.0.0.0", "192.0.2.1")))  # noqa: S104 - what is asked about


def test_a_role_is_granted_by_name() -> None:
    """The higher of two roles counts; case does not matter; without a name there is no role."""
    assert role_of("ada@EXAMPLE.com", ROLES) == OPERATOR
    assert role_of("ops-7", ROLES) == OPERATOR
    assert role_of("bob@example.com", ROLES) == VIEWER
    assert role_of("eve@example.com.elsewhere.org", ROLES) == STRANGER
    assert role_of("", {"operators": ["*"]}) == STRANGER
    assert role_of("ada@example.com", {}) == STRANGER


@pytest.mark.parametrize("verified", [False, None, 0, 1, "false", "true", "True", "", [], [True], {"value": True}])
def test_an_unverified_address_gives_no_role(verified: object) -> None:
    """With some providers, users can enter any address.

    Only the value true counts; other claims do not take its place.
    """
    claims = {"email": "ada@example.com", "email_verified": verified, "preferred_username": "ops-1", "sub": "ops-2"}
    assert name_of(claims, ROLES) == ""
    assert "email_verified" in nameless(claims, ROLES)
    del claims["email_verified"]
    assert name_of(claims, ROLES) == ""


def test_a_verified_address_is_a_name() -> None:
    """It is the only claim that counts unless the setting names another one."""
    assert name_of({"email": "ada@example.com", "email_verified": True, "sub": "1"}, ROLES) == "ada@example.com"
    for claims in ({}, {"email": ""}, {"email": ["ada@example.com"], "email_verified": True}, {"sub": "ops-1"}):
        assert name_of(claims, ROLES) == ""
        assert "no claim email" in nameless(claims, ROLES)


def test_the_setting_names_the_claim() -> None:
    """A claim of the provider is taken as it is; one that people choose never is."""
    claims = {"email": "ada@example.com", "email_verified": True, "sub": "ops-2", "oid": "7", "phone_number": "+1"}
    assert name_of(claims, {**ROLES, "claim": "sub"}) == "ops-2"
    assert name_of(claims, {**ROLES, "claim": "oid"}) == "7"
    assert name_of(claims, {**ROLES, "claim": "phone_number"}) == ""
    assert name_of({**claims, "phone_number_verified": True}, {**ROLES, "claim": "phone_number"}) == "+1"
    for claim in ("preferred_username", "nickname", "name", "email_verified"):
        assert name_of({**claims, claim: "ops-1"}, {**ROLES, "claim": claim}) == ""
        assert "choose" in nameless({**claims, claim: "ops-1"}, {**ROLES, "claim": claim})


def test_without_a_login_only_loopback_is_open() -> None:
    """Also in a container, unless one variable has the value 1."""
    everywhere = "0.0.0.0"  # noqa: S104 - what is asked about
    assert not closed("127.0.0.1", {})
    assert closed(everywhere, {})
    assert closed(everywhere, {"TIDEMARK_CONSOLE_IN_CONTAINER": "1"})
    assert not closed(everywhere, {EVERYBODY: "1"})
    assert all(closed(None, {EVERYBODY: value}) for value in ("", "0", "false", "no", "true"))
