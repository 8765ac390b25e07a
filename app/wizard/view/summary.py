"""What a new pipeline is and does, in plain sentences."""

from app.common.view import limits, words
from app.common.view.draft import Draft
from app.wizard.view import destination_kind, planning
from engine.base.errors import SpecError
from engine.spec.throttle_settings import Throttle, throttled

_BEGIN = {
    "initial": "copies every chosen table, then follows its changes until it is stopped",
    "snapshot": "copies every chosen table, and ends",
    "latest": "follows changes from now on; existing rows are not copied",
    "earliest": "follows changes from the oldest binlog that the server still has; nothing is copied",
}


def facts(draft: Draft) -> list[tuple[str, list[str]]]:
    """(label, lines) of the settings; `—` for an unknown value."""
    source = draft.get("source", default={})
    server, plan, spark = (_finding_text(draft, step) for step in ("Connect", "Plan", "Spark"))
    globs = ", ".join(source.get("tables", [])) or words.NOTHING
    projections = draft.get("tables", default={})
    edited_tables = draft.get("snapshot", "tables", default={})
    size, time = _size_and_time(plan)
    lines = [
        ("Pipeline", [draft.name or words.NOTHING]),
        (
            "Source",
            [f"{source.get('user')}@{source.get('host')}:{source.get('port', 3306)}", server],
        ),
        ("Password", [_password(draft)]),
        ("Tables", [globs if len(globs) < 300 else f"{globs[:300]}…", size]),
        ("Columns", [f"left out or masked in {', '.join(projections)}" if projections else ""]),
        ("Chunks", [f"set by you for {', '.join(edited_tables)}" if edited_tables else ""]),
        ("Start", [begins(draft)]),
        ("Throttle", [_throttle(draft), time]),
        ("Destination", [_destination(draft)]),
        ("Spark", [spark or str(draft.get("spark", "master", default="local[*]"))]),
    ]
    entries = [(label, [value for value in values if value]) for label, values in lines]
    return [(label, values) for label, values in entries if values]


def begins(draft: Draft) -> str:
    """The startup mode, as the predicate of a sentence."""
    startup = str(draft.get("source", "startup", default="initial"))
    mode, _, argument = startup.partition(":")
    return _BEGIN.get(startup) or f"follows changes from {mode} {argument}; nothing is copied"


def copies(draft: Draft) -> bool:
    """Whether the run reads tables, and not only the binlog."""
    return str(draft.get("source", "startup", default="initial")) in ("initial", "snapshot")


def happens(draft: Draft) -> list[str]:
    """The steps of a launch, in order."""
    lines = [
        "A runner starts as a separate process. It continues when this console ends.",
        "It runs the preflight checks again and starts Spark. It reads nothing before both succeed.",
    ]
    if copies(draft):
        lines.append(
            "Tables are read in chunks, several at once, without a lock, while applications write to the source."
        )
    if draft.get("source", "startup") == "snapshot":
        lines.append("When all tables are copied and consistent, it ends.")
    elif destination_kind.has_mirrors(draft):
        lines.append("Changes are taken from the binlog and merged into the mirror.")
    elif destination_kind.kind_of(draft) in destination_kind.DATABASES:
        lines.append("Changes are taken from the binlog and applied to the tables of the database.")
    else:
        lines.append("Changes are taken from the binlog and added to the change log.")
    lines.append("You can pause, stop and start it at any time. It continues from the committed state.")
    return lines


def _destination(draft: Draft) -> str:
    kind = destination_kind.kind_of(draft)
    iceberg = destination_kind.iceberg_of(draft)
    formats = f", also read as Iceberg {iceberg}" if iceberg else ""
    return f"{destination_kind.KINDS.get(kind, kind)} in {destination_kind.place(draft) or words.NOTHING}{formats}"


def _size_and_time(plan: str) -> tuple[str, str]:
    """The parts of `planning.sums` about the tables, and the one about the time to read them."""
    parts = plan.split(planning.BETWEEN)
    times = [part for part in parts if planning.OF_READING in part]
    return planning.BETWEEN.join(part for part in parts if part not in times), planning.BETWEEN.join(times)


def _throttle(draft: Draft) -> str:
    """The limits in words; empty if nothing is copied, or the settings are not valid."""
    if not copies(draft):
        return ""
    try:
        throttle = throttled(Throttle(), dict(draft.get("throttle", default={})))
    except SpecError:
        return ""
    return limits.described(limits.pace_of(throttle.model_dump()))


def _finding_text(draft: Draft, step: str) -> str:
    finding = draft.finding(step)
    return finding.text if finding and finding.outcome != "fail" else ""


def _password(draft: Draft) -> str:
    if name := draft.get("source", "password_env"):
        return f"from the variable {name}"
    return f"from the file {name}" if (name := draft.get("source", "password_file")) else "none"
