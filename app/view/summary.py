"""What a new pipeline will be and do, in plain sentences."""

from app.view import words
from app.view.draft import Draft

_BEGIN = {
    "initial": "copies every chosen table, then follows its changes until it is stopped",
    "snapshot": "copies every chosen table, and ends",
    "latest": "follows changes from now on; what is there already is not copied",
    "earliest": "follows changes from the oldest binlog that the server still has; nothing is copied",
}


def facts(draft: Draft) -> list[tuple[str, list[str]]]:
    """(label, lines) of what was chosen; what is unknown is `—`."""
    source = draft.get("source", default={})
    answered, plan, spark = (_told(draft, step) for step in ("Connect", "Plan", "Spark"))
    globs = ", ".join(source.get("tables", [])) or words.NOTHING
    shaped = draft.get("tables", default={})
    edited = draft.get("snapshot", "tables", default={})
    lines = [
        ("Pipeline", [draft.name or words.NOTHING]),
        (
            "Source",
            [f"{source.get('user')}@{source.get('host')}:{source.get('port', 3306)}", answered],
        ),
        ("Password", [_password(draft)]),
        ("Tables", [globs if len(globs) < 300 else f"{globs[:300]}…", plan]),
        ("Columns", [f"left out or masked in {', '.join(shaped)}" if shaped else ""]),
        ("Chunks", [f"set by you for {', '.join(edited)}" if edited else ""]),
        ("Start", [begins(draft)]),
        ("Destination", [f"Delta tables in {draft.get('sink', 'path', default=words.NOTHING)}"]),
        ("Spark", [spark or str(draft.get("spark", "master", default="local[*]"))]),
    ]
    shown = [(label, [value for value in values if value]) for label, values in lines]
    return [(label, values) for label, values in shown if values]


def begins(draft: Draft) -> str:
    """What it does at first, as the predicate of a sentence."""
    startup = str(draft.get("source", "startup", default="initial"))
    mode, _, argument = startup.partition(":")
    return _BEGIN.get(startup) or f"follows changes from {mode} {argument}; nothing is copied"


def happens(draft: Draft) -> list[str]:
    """What the launch does, in its order."""
    copies = str(draft.get("source", "startup", default="initial")) in ("initial", "snapshot")
    lines = [
        "A runner starts as a process of its own; it goes on when this console ends.",
        "It checks the source as the preflight did, and starts Spark. Nothing is read before both are well.",
    ]
    if copies:
        lines.append(
            "Tables are read in chunks, many at once, without a lock; the source may be written to all the while."
        )
    lines.append(
        "Changes are taken from the binlog and merged into the mirror."
        if draft.get("source", "startup") != "snapshot"
        else "When all is copied and consistent, it ends."
    )
    lines.append("You can pause, stop and start it at any time: it goes on from what was committed.")
    return lines


def _told(draft: Draft, step: str) -> str:
    found = draft.finding(step)
    return found.text if found and found.outcome != "fail" else ""


def _password(draft: Draft) -> str:
    if name := draft.get("source", "password_env"):
        return f"from the variable {name}"
    return f"from the file {name}" if (name := draft.get("source", "password_file")) else "none"
