"""Access control: no login on loopback, a login with OIDC elsewhere.

The login is Streamlit's own, configured in `secrets.toml`: `[auth]` with the provider, and next to it

    [roles]
    operators = ["ada@example.com"]     # may do everything
    viewers = ["*@example.com"]         # may not see rows or send commands
    claim = "email"                     # the claim of the login that these lists name

In a container, the console listens on all of the container's addresses and cannot tell to whom the port is published.
Without a login, it therefore shows nothing there either, unless TIDEMARK_CONSOLE_EVERYBODY_IS_OPERATOR=1 allows
everyone who can connect to read rows and stop pipelines. Nor does it show what viewers may see, since names, statements
and chunk bounds are data too.
"""

import os
from collections.abc import Mapping
from typing import Any

import streamlit as st
from streamlit.errors import StreamlitSecretNotFoundError

from app.common import return_address
from app.common.view import roles, words

_REMEDY = 'have it verified by the login\'s provider, or to name another claim, such as claim = "sub", in'


def role() -> str:
    """The role of the current user. Without one, show the login or the refusal, and end the page."""
    if not _section("auth"):
        if roles.closed(st.get_option("server.address"), os.environ):
            _refuse()
        return roles.OPERATOR
    if not st.user.is_logged_in:
        _login()
    user_role = roles.role_of(actor(), _section("roles"))
    if user_role == roles.STRANGER:
        _stranger()
    return user_role


def operator() -> bool:
    """Whether the current user is an operator."""
    return role() == roles.OPERATOR


def actor() -> str:
    """The name under which commands are journalled; empty means the name of the process."""
    return roles.name_of(st.user.to_dict(), _section("roles")) if _section("auth") and st.user.is_logged_in else ""


def who() -> None:
    """The logged-in user, and a button to log out."""
    if _section("auth") and st.user.is_logged_in:
        return_address.follow()
        st.markdown(f":small[:gray[{words.escape(actor())} · {role()}]]", width="content")
        st.button("Log out", icon=":material/logout:", type="tertiary", key="log-out", on_click=st.logout)


def _section(name: str) -> Mapping[str, Any]:
    try:
        section: Mapping[str, Any] = st.secrets.get(name, {})
    except StreamlitSecretNotFoundError:  # no file at all
        return {}
    return section


def _refuse() -> None:
    st.title("Tidemark", anchor=False)
    st.error(
        "**This console listens on more than this machine, and has no login.**\n\n"
        "**What it means** Anyone who can connect to it could read your rows and stop your pipelines, so it shows "
        "nothing.\n\n"
        "**What to do** Configure a login with \\[auth\\] and \\[roles\\] in secrets.toml, as described in "
        "docs/console.md. Or start it with server.address 127.0.0.1. In a container, where no one could connect then, "
        f"publish the port on 127.0.0.1 and set {roles.EVERYBODY}=1, which makes everyone who can connect an operator.",
        icon=":material/lock:",
    )
    st.stop()


def _login() -> None:
    with st.container(border=True, horizontal_alignment="center"):
        st.title("Tidemark", anchor=False, text_alignment="center")
        st.markdown(":gray[Log in to see the pipelines.]", text_alignment="center")
        return_address.keep()
        st.button("Log in", type="primary", icon=":material/login:", key="log-in", on_click=st.login)
    st.stop()


def _stranger() -> None:
    why = roles.nameless(st.user.to_dict(), _section("roles"))
    st.title("Tidemark", anchor=False)
    st.error(
        f"**{words.escape(actor() or 'This login')} has no role here.**\n\n"
        + (f"**What it means** {words.escape(why)}\n\n" if why else "")
        + f"**What to do** Ask the administrator to {_REMEDY if why else 'add you to'} \\[roles\\].",
        icon=":material/lock:",
    )
    st.button("Log out", icon=":material/logout:", key="log-out", on_click=st.logout)
    st.stop()
