"""The fields about the Iceberg catalog in which the tables of a new pipeline are registered."""

import streamlit as st

from app.common.view.draft import Draft
from app.wizard import drafts, frame
from app.wizard.view import destination_kind
from app.wizard.view.destination_kind import CATALOG


def fields(draft: Draft) -> None:
    """Nothing without Iceberg tables."""
    if not destination_kind.iceberg_of(draft):
        return
    now = destination_kind.catalog_of(draft)
    key = frame.synced(f"{draft.id} catalog", now, lambda key: _keep(draft.id, key))
    st.selectbox(
        "Catalog",
        list(destination_kind.CATALOGS),
        index=list(destination_kind.CATALOGS).index(now),
        format_func=destination_kind.CATALOGS.__getitem__,
        key=key,
        on_change=_keep,
        args=(draft.id, key),
        help=destination_kind.CATALOG_HELP,
    )
    if not now:
        return
    label, example, secret, variable = destination_kind.CATALOG_FIELDS[now]
    frame.text(label, draft, *CATALOG, "uri", placeholder=example)
    left, right = st.columns(2)
    with left:
        frame.text(
            "Namespace",
            draft,
            *CATALOG,
            "namespace",
            placeholder="{database}",
            help="Of the tables in the catalog. `{database}` stands for the database of a table.",
        )
    with right:
        frame.text(
            secret,
            draft,
            *CATALOG,
            variable,
            help="The name of an environment variable of the runner. The secret itself is never in a spec. Other ways, "
            "such as OAuth2, can be written in the TOML.",
        )


def _keep(identity: str, key: str) -> None:
    kind = st.session_state[key] or ""
    drafts.change(identity, lambda draft: destination_kind.with_catalog(draft, kind))
