"""Step 1: the address of the source and the credentials, tested by asking the server for its identity."""

import os
from dataclasses import replace
from functools import partial
from pathlib import Path

import streamlit as st

from app.common import jobs, messages, source_queries
from app.common.view import words
from app.common.view.draft import Draft, name_fault, variable_fault
from app.wizard import drafts, frame
from engine.base.errors import TidemarkError

_TLS = {
    "preferred": "Preferred: TLS where the server offers it",
    "required": "Required: always TLS, any certificate",
    "verify": "Verify: TLS, and the certificate must be valid",
    "off": "Off: unencrypted",
}
_NEW = ""
_MODES = ("Variable", "File", "No password")


def page(draft: Draft) -> None:
    """The form on the left, the connection test on the right."""
    left, right = st.columns([3, 2], gap="large")
    with left:
        name = frame.text(
            "Pipeline name",
            draft,
            "name",
            placeholder="for example shop",
            help="Letters, digits, - and _; also the name of the pipeline's folder",
        )
        fault = name_fault(name, frame.pipeline_names()) if name else ""
        with st.container():  # keeps its position, so that the fields below stay when the message comes and goes
            if fault:
                st.markdown(f":red[:material/error:] {words.escape(fault)}")
        _saved(draft)
        _address(draft)
        _password(draft)
        _tls(draft)
    with right:
        _test(draft)
    missing = name_fault(name, frame.pipeline_names())
    frame.foot(draft, "Connect", ready=not missing, why=missing)


def _saved(draft: Draft) -> None:
    connections = drafts.connections()
    pick, save = st.columns([3, 1], vertical_alignment="bottom")
    choice = draft.connection if draft.connection in connections else _NEW
    nothing = "Another one" if connections else "None is saved"
    key = frame.synced(f"{draft.id} connection", choice, partial(_pick, draft.id))
    pick.selectbox(
        "Saved connection",
        [_NEW, *connections],
        index=[_NEW, *connections].index(choice),
        format_func=lambda one: (
            f"{one} ({connections[one].get('host')}:{connections[one].get('port', 3306)})" if one else nothing
        ),
        key=key,
        on_change=_pick,
        args=(draft.id, key),
        help="Saved in the home folder of this console, for all its pipelines, without passwords",
        disabled=not connections,
    )
    with save, st.popover("Save", icon=":material/bookmark:", width="stretch", key="keep-connection"):
        st.markdown("Saves host, port, user, TLS and the reference to the password under a name.", width=320)
        default_name = draft.connection or draft.name
        # Under the same key, Streamlit would show a new default but not send it.
        key = f"{draft.id} connection-name {default_name}"
        st.text_input("Connection name", default_name, key=key)
        st.button(
            "Save connection",
            type="primary",
            key="save-connection",
            on_click=_save,
            args=(draft.id, key),
        )
        if draft.connection in connections:
            st.button(
                f"Delete {draft.connection}",
                icon=":material/delete:",
                key="forget-connection",
                on_click=drafts.forget_connection,
                args=(draft.connection,),
            )


def _pick(identity: str, key: str) -> None:
    name = st.session_state[key]
    connection = drafts.connections().get(name, {})

    def taken_over(draft: Draft) -> Draft:
        source = {
            k: v
            for k, v in draft.get("source", default={}).items()
            if k not in drafts.CONNECTION_KEYS or not connection
        }
        return draft.put("source", value={**connection, **source})

    drafts.change(identity, lambda draft: _named(taken_over(draft), name))


def _named(draft: Draft, name: str) -> Draft:
    return replace(draft, connection=name)


def _save(identity: str, key: str) -> None:
    name = (st.session_state.get(key) or "").strip()
    if not name:
        st.toast("Not saved: the connection has no name.", icon=":material/edit:")
    else:
        drafts.save_connection(name, drafts.load(identity).get("source", default={}))
        drafts.change(identity, lambda draft: _named(draft, name))


def _address(draft: Draft) -> None:
    left, middle, right = st.columns([3, 1.3, 2])
    with left:
        frame.text("Host", draft, "source", "host", placeholder="for example db.example.com")
    with middle:
        frame.number("Port", draft, "source", "port", default=3306, min_value=1, max_value=65535, step=1)
    with right:
        frame.text("User", draft, "source", "user")


def _password(draft: Draft) -> None:
    source = draft.get("source", default={})
    now = "File" if source.get("password_file") else "Variable" if source.get("password_env") else None
    key = f"{draft.id} password-mode"
    kind, value = st.columns([2, 3], vertical_alignment="top")
    with kind:
        mode = st.segmented_control("Password from", _MODES, default=now or "Variable", key=key, required=True)
    with value:
        if mode == "File":
            _file(draft)
        elif mode == "Variable":
            _variable(draft)
        else:
            st.text_input("Password", "none: the account has no password", disabled=True, key=f"{draft.id} none")
    _only(draft, mode or "Variable")


def _file(draft: Draft) -> None:
    path = frame.text(
        "Path of the file",
        draft,
        "source",
        "password_file",
        placeholder="for example /run/secrets/shop",
        help="Its content is the password; a newline at the end is ignored. It is read again at each login, so a "
        "changed password needs no restart.",
    )
    if not path:
        return
    if fault := file_fault(Path(path)):
        st.markdown(f":small[:orange[:material/warning: {words.escape(fault)}]]")
    else:
        st.caption(":green[:material/check:] this console can read it")


def file_fault(path: Path) -> str:
    """Why a password may not be read from this file; empty if it can be. Its content is not looked at."""
    if not path.is_absolute():
        return "Enter an absolute path. The pipeline would look for a relative one in its own folder."
    if not path.is_file() or not os.access(path, os.R_OK):
        return f"{path} is not a file that this console can read. Create it, or enter another path."
    return ""


def _variable(draft: Draft) -> None:
    name = draft.get("source", "password_env", default="")
    key = frame.synced(f"{draft.id} password-env", name, partial(_keep_variable, draft.id))
    st.text_input(
        "Name of the environment variable",
        name,
        key=key,
        placeholder="for example SHOP_PASSWORD",
        on_change=_keep_variable,
        args=(draft.id, key),
        help="A variable in the environment of this console. The password itself is never saved.",
    )
    if fault := st.session_state.get(f"{draft.id} variable-fault"):
        st.markdown(f":small[:red[:material/error: {words.escape(fault)}]]")
    elif name and name not in os.environ:
        st.markdown(
            f":small[:orange[:material/warning: {words.escape(name)} is not set in this console.] Export it and "
            "restart the console, or enter another one.]"
        )
    elif not name:
        st.markdown(":small[:orange[:material/warning: No variable is named, so the login sends no password.]]")
    else:
        st.caption(":green[:material/check:] set in this console")


def _keep_variable(identity: str, key: str) -> None:
    name = (st.session_state[key] or "").strip()
    if fault := variable_fault(name):
        st.session_state[f"{identity} variable-fault"] = fault
        return
    st.session_state.pop(f"{identity} variable-fault", None)
    drafts.change(identity, lambda draft: draft.put("source", "password_env", value=name or None))


def _only(draft: Draft, mode: str) -> None:
    """Keep one reference to the password: choosing one removes the other."""
    other = {"File": ["password_env"], "Variable": ["password_file"], "No password": ["password_env", "password_file"]}[
        mode
    ]
    source = draft.get("source", default={})
    reference = source.get("password_file" if mode == "File" else "password_env")
    if any(source.get(name) for name in other) and (reference or mode == "No password"):
        for name in other:
            drafts.change(draft.id, partial(_without, name=name))
        st.rerun()


def _without(draft: Draft, name: str) -> Draft:
    return draft.put("source", name, value=None)


def _tls(draft: Draft) -> None:
    left, right = st.columns(2)
    with left:
        mode = frame.choice("Encryption", draft, _TLS, "source", "tls", default="preferred")
    with right:
        if mode in ("required", "verify"):
            frame.text(
                "CA certificate",
                draft,
                "source",
                "tls_ca",
                placeholder="the CAs of the system",
                help="Path of a PEM file on this machine",
            )


def _test(draft: Draft) -> None:
    st.markdown("**Connection test** :gray[logs in and asks the server for its identity; reads nothing else]")
    key = f"greet {source_queries.key_of(draft)}"
    finding = draft.finding("Connect")
    tested = finding is not None or jobs.exists(key)
    if st.button(
        "Test again" if tested else "Test connection",
        type="secondary" if tested else "primary",
        icon=":material/cable:",
        key="test-connection",
        disabled=jobs.running(key),
    ):
        jobs.forget(key)
        jobs.start(key, lambda: source_queries.greet(source_queries.spec_of(draft)))
        st.rerun()
    if not jobs.exists(key):
        frame.earlier_finding(
            finding, "Not tested yet. The next step connects too, and checks everything that a run needs."
        )
        return
    try:
        greeting = jobs.result(
            key,
            f"Connecting to {draft.get('source', 'host')}:{draft.get('source', 'port')}",
            lambda: source_queries.greet(source_queries.spec_of(draft)),
        )
    except TidemarkError as problem:
        frame.error(problem, draft)
        frame.note(draft, "Connect", "fail", problem.message)
        return
    if greeting is not None:
        _answered(draft, greeting)


def _answered(draft: Draft, greeting: source_queries.Greeting) -> None:
    flavor = {"mysql": "MySQL", "mariadb": "MariaDB"}[greeting.server.flavor]
    version = ".".join(map(str, greeting.server.version))
    finding = frame.note(draft, "Connect", "ok", f"{flavor} {version} answered as {greeting.account}.").finding(
        "Connect"
    )
    tables = f"{words.plural(greeting.tables, 'table')} in {words.plural(greeting.databases, 'database')}"
    with st.container(border=True, gap="small"):
        st.markdown(f"#### :green[:material/check_circle: {flavor} {version} answered]", anchors=False)
        facts = {
            "Identity": greeting.server.identity,
            "Host name": greeting.host,
            "Version": greeting.server.version_text,
            "Logged in as": greeting.account,
            "Encryption": greeting.tls or "none",
            "Visible": tables,
        }
        for label, value in facts.items():
            left, right = st.columns([2, 5], gap="small")
            left.markdown(f":gray[{label}]")
            right.markdown(words.escape(value))
        if finding:
            st.caption(f"Tested {frame.finding_time(finding.at)}")
    if not greeting.tables:
        messages.three_parts(
            "This account sees no table.",
            "It cannot copy anything.",
            "Grant it SELECT; the next step shows the complete statements.",
            amber=True,
        )
