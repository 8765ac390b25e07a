"""The kind of a new pipeline's destination: what it keeps, where, and what it lacks."""

from app.common.view.draft import Draft
from engine.spec.sink_settings import OF_MIRRORS

_PATH = ("sink", "type")
DELTA, PARQUET = "delta", "parquet"
KINDS = {DELTA: "Delta tables", PARQUET: "Parquet files"}
"""The values of `sink.type`, and their labels."""
KEEPS = {
    DELTA: "a mirror and a change log for each source table",
    PARQUET: "a change log for each source table, by date and hour",
}
WITHOUT_MIRRORS = (
    "Parquet files have no mirrors. So there is no verification, audit, query in Explore, backup, or redump of a part "
    "of a table."
)
_LAYOUTS = {
    DELTA: "├── <database>/<table>            the mirror\n└── <database>/<table>__changes   the change log",
    PARQUET: (
        "├── <database>/<table>        the change log\n"
        "│   └── date=…/hour=…/*.parquet\n"
        "└── _manifests/<epoch>.json   what is published"
    ),
}


def kind_of(draft: Draft) -> str:
    """The value of `sink.type`."""
    return str(draft.get(*_PATH, default=DELTA))


def has_mirrors(draft: Draft) -> bool:
    """Whether the destination keeps mirrors."""
    return kind_of(draft) == DELTA


def with_kind(draft: Draft, kind: str) -> Draft:
    """The draft with a kind, without the settings that the kind has not."""
    draft = draft.put(*_PATH, value=kind)
    if not has_mirrors(draft):
        for key in OF_MIRRORS:
            draft = draft.put("sink", key, value=None)
    return draft


def layout(draft: Draft) -> str:
    """What is written below the destination folder, as a tree."""
    return _LAYOUTS.get(kind_of(draft), "")
