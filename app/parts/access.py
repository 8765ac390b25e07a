"""The door: loopback without a login, OIDC with one, and nothing else.

A login is configured as Streamlit has it, in `secrets.toml`: `[auth]` with the provider, and beside it

    [roles]
    operators = ["ada@example.com"]     # may do everything
    viewers = ["*@example.com"]         # may look: not at rows, and not send commands

In a container the console listens on every address of the container, and cannot see to whom the port is published. So there, too,
nobody gets in without a login, unless TIDEMARK_CONSOLE_EVERYBODY_IS_OPERATOR=1 says that everybody who reaches the port may read
rows and stop pipelines. Without both the door is closed to viewers as well: what is shown (names, statements, bounds of chunks) is
nobody's by default either.
"""

import os
from collections.abc import Mapping
from typing import Any

import streamlit as st
from streamlit.errors import StreamlitSecretNotFoundError

from app.view import access, words


def role() -> str:
    """The role of whoever looks; draws the door and ends the page where there is none."""
    if not _section("auth"):
        if access.closed(st.get_option("server.address"), os.environ):
            _refuse()
        return access.OPERATOR
    if not st.user.is_logged_in:
        _login()
    found = access.role_of(actor(), _section("roles"))
    if found == access.STRANGER:
        _stranger()
    return found


def operator() -> bool:
    """Whether whoever looks may change something."""
    return role() == access.OPERATOR


def actor() -> str:
    """By what name commands are journalled; empty: that of the process."""
    return access.name_of(st.user.to_dict()) if _section("auth") and st.user.is_logged_in else ""


def who() -> None:
    """Who is logged in, and the way out."""
    if _section("auth") and st.user.is_logged_in:
        st.markdown(f":small[:gray[{words.escape(actor())} · {role()}]]", width="content")
        st.button("Log out", icon=":material/logout:", type="tertiary", key="log-out", on_click=st.logout)


def _section(name: str) -> Mapping[str, Any]:
    try:
        found: Mapping[str, Any] = st.secrets.get(name, {})
    except StreamlitSecretNotFoundError:  # no file at all
        return {}
    return found


def _refuse() -> None:
    st.error(
        "**This console listens on more than this machine, and knows no login.**\n\n"
        "**What it means** Anybody who reaches it could "
        "read your rows and stop your pipelines, so it shows nothing.\n\n"
        "**What to do** Configure a login: \\[auth\\] and \\[roles\\] in "
        "secrets.toml, as docs/console.md says. Or start it with server.address 127.0.0.1; in a container, where that reaches "
        f"nobody, publish the port on 127.0.0.1 and set {access.EVERYBODY}=1, which makes an operator of everybody who reaches it.",
        icon=":material/lock:",
    )
    st.stop()


def _login() -> None:
    with st.container(border=True, horizontal_alignment="center"):
        st.markdown("### Tidemark", text_alignment="center", anchors=False)
        st.markdown(":gray[Log in to see the pipelines.]", text_alignment="center")
        st.button("Log in", type="primary", icon=":material/login:", key="log-in", on_click=st.login)
    st.stop()


def _stranger() -> None:
    who = actor() or "Somebody without a verified name"
    st.error(
        f"**{words.escape(who)} has no role here.**\n\n**What to do** Ask whoever runs this console to name you in \\[roles\\].",
        icon=":material/lock:",
    )
    st.button("Log out", icon=":material/logout:", key="log-out", on_click=st.logout)
    st.stop()
