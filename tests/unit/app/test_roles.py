"""Roles."""

from app.view.roles import EVERYBODY, OPERATOR, STRANGER, VIEWER, closed, name_of, open_to_others, role_of

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


def test_an_unverified_address_does_not_count() -> None:
    """With some providers, users can enter any address."""
    assert name_of({"email": "ada@example.com", "email_verified": True, "sub": "1"}) == "ada@example.com"
    assert name_of({"email": "ada@example.com", "sub": "1"}) == "ada@example.com"
    assert name_of({"email": "ada@example.com", "email_verified": False, "sub": "1"}) == "1"
    assert name_of({}) == ""


def test_without_a_login_only_loopback_is_open() -> None:
    """Also in a container, unless one variable has the value 1."""
    everywhere = "0.0.0.0"  # noqa: S104 - what is asked about
    assert not closed("127.0.0.1", {})
    assert closed(everywhere, {})
    assert closed(everywhere, {"TIDEMARK_CONSOLE_IN_CONTAINER": "1"})
    assert not closed(everywhere, {EVERYBODY: "1"})
    assert all(closed(None, {EVERYBODY: value}) for value in ("", "0", "false", "no", "true"))
