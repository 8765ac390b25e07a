"""The fields about the server and the tables of a new pipeline whose destination is a database."""

import streamlit as st

from app.common.view.draft import Draft
from app.wizard import frame
from app.wizard.view import destination_kind
from app.wizard.view.destination_kind import DATABASE_SETTINGS


def fields(draft: Draft) -> None:
    """Nothing for another destination."""
    kind = destination_kind.kind_of(draft)
    if kind not in destination_kind.DATABASES:
        return
    if kind == destination_kind.DUCKDB:
        frame.text("File", draft, *DATABASE_SETTINGS, "file", placeholder="/data/lake.duckdb")
        _table(draft)
        return
    server, port = st.columns([3, 1])
    with server:
        frame.text("Server", draft, *DATABASE_SETTINGS, "host", placeholder="db.example.com")
    with port:
        usual = destination_kind.DATABASES[kind]
        frame.number(
            "Its port", draft, *DATABASE_SETTINGS, "port", default=usual, min_value=1, max_value=65_535, step=1
        )
    left, right = st.columns(2)
    with left:
        frame.text("Database", draft, *DATABASE_SETTINGS, "database", placeholder="lake")
        frame.text("Login", draft, *DATABASE_SETTINGS, "user", placeholder="tidemark")
    with right:
        _table(draft)
        frame.text(
            "Variable with its password",
            draft,
            *DATABASE_SETTINGS,
            "password_env",
            placeholder="LAKE_PASSWORD",
            help="The name of an environment variable, of the console and of the runner.",
        )
    st.caption("TLS and a file with the password are written in the TOML: `[sink.database]`.")


def _table(draft: Draft) -> None:
    frame.text(
        "Table",
        draft,
        *DATABASE_SETTINGS,
        "table",
        placeholder="{database}.{table}",
        help="`{database}` and `{table}` stand for the names on the source. Before the dot is the schema; on MySQL "
        "and MariaDB, the database. Without a dot, tables are where Tidemark's own are.",
    )
