"""The draft of a pipeline: its spec so far, and the finding of each step. Pure; `wizard.drafts` keeps it on disk.

The spec is the nested dictionary of its TOML, so keys that were written by hand survive the steps, which do not know
them. A finding is kept with a fingerprint of the settings it depends on, so that a change of one of them invalidates
it. A draft holds no secret: passwords are references.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from engine.pipeline import formats
from engine.spec.pipeline_name import NAME, NAME_RULE

StepOutcome = Literal["ok", "warn", "fail"]

STEPS = ("Connect", "Preflight", "Tables", "Plan", "Destination", "Spark", "Launch")
_DEPENDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "Connect": (("source", "host"), ("source", "port"), ("source", "user"), ("source", "password_env"),
                ("source", "password_file"), ("source", "tls"), ("source", "tls_ca")),
    "Spark": (("spark",), ("sink", "path")),
    "Destination": (("name",), ("sink",), ("source", "startup")),
}  # fmt: skip
_DEPENDS["Preflight"] = (*_DEPENDS["Connect"], ("source", "tables"), ("source",), ("tables",), ("name",))
_DEPENDS["Plan"] = (*_DEPENDS["Connect"], ("source", "tables"), ("snapshot",), ("throttle",))
_LABELS = {
    ("source", "password_env"): "password",
    ("source", "password_file"): "password",
    ("source", "tls"): "TLS",
    ("source", "tls_ca"): "TLS",
    ("source",): "settings of the source",
    ("tables",): "columns",
    ("snapshot",): "chunk settings",
    ("throttle",): "limits",
    ("spark",): "Spark",
    ("sink",): "destination",
}
"""What an operator calls a setting, if not by the last part of its path."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class StepFinding:
    """The finding of a step."""

    outcome: StepOutcome
    text: str
    """One line, which the launch step shows."""
    of: str
    """The fingerprint of the settings that the finding depends on."""
    at: str
    """When, in UTC."""


@dataclass(frozen=True)
class Draft:
    """A pipeline that is not launched yet."""

    id: str
    """Part of its file name and its URL."""
    spec: dict[str, Any] = field(default_factory=dict)
    connection: str = ""
    """The name of the saved connection that was chosen last."""
    step: str = STEPS[0]
    """The step that was open last."""
    findings: dict[str, StepFinding] = field(default_factory=dict)
    """The findings, by step."""
    changed: str = ""
    """When it was changed last, in UTC; empty for a draft that was never saved."""
    written: str = ""
    """The last TOML by hand, for its comments and layout. The values are those of `spec`."""

    @property
    def name(self) -> str:
        """The pipeline's name; may be empty."""
        return str(self.spec.get("name", ""))

    def get(self, *path: str, default: Any = None) -> Any:
        """A value of the spec, or the default."""
        here: Any = self.spec
        for part in path:
            if not isinstance(here, Mapping) or part not in here:
                return default
            here = here[part]
        return here

    @property
    def sends_password(self) -> bool:
        """Whether a variable or a file is named that has the password."""
        return bool(self.get("source", "password_env") or self.get("source", "password_file"))

    def put(self, *path: str, value: Any) -> "Draft":
        """The draft with one value of the spec set; None removes it, and any section that is then empty."""
        return replace(self, spec=_put(self.spec, path, value))

    def fingerprint(self, step: str) -> str:
        """A hash of each setting that a step's finding depends on, so that a change can be named."""
        paths = _DEPENDS.get(step, ())
        return ".".join(_hash(self._without(path, paths)) for path in paths)

    def changes_since(self, step: str) -> list[str]:
        """What has changed since a step was done, of what its finding depends on; empty if it is current or not done.

        A finding of an earlier version does not say it: the settings.
        """
        if step not in self.findings or self.finding(step) is not None:
            return []
        paths, hashes = _DEPENDS.get(step, ()), self.findings[step].of.split(".")
        if len(hashes) != len(paths):
            return ["settings"]
        pairs = zip(paths, hashes, self.fingerprint(step).split("."), strict=True)
        return list(dict.fromkeys(_LABELS.get(path, path[-1]) for path, before, now in pairs if before != now))

    def _without(self, path: tuple[str, ...], others: Sequence[tuple[str, ...]]) -> Any:
        """A setting; a section without those of its settings that are listed on their own."""
        value = self.get(*path)
        own = {other[-1] for other in others if len(other) > 1 and other[:-1] == path}
        return {name: one for name, one in value.items() if name not in own} if isinstance(value, Mapping) else value

    def note(self, step: str, outcome: StepOutcome, text: str, at: str) -> "Draft":
        """The draft with the finding of a step."""
        return replace(self, findings={**self.findings, step: StepFinding(outcome, text, self.fingerprint(step), at)})

    def finding(self, step: str) -> StepFinding | None:
        """A step's finding; None if there is none, or the settings have changed since."""
        finding = self.findings.get(step)
        return finding if finding and finding.of == self.fingerprint(step) else None

    def as_dict(self) -> dict[str, Any]:
        """The draft as JSON; `from_dict` is the inverse."""
        return {
            formats.FIELD: formats.VERSIONS["draft"],
            "id": self.id,
            "changed": self.changed,
            "connection": self.connection,
            "step": self.step,
            "found": {step: vars(finding) for step, finding in self.findings.items()},
            "spec": self.spec,
            "written": self.written,
        }


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:8]


def from_dict(record: Mapping[str, Any]) -> Draft:
    """The inverse of `Draft.as_dict`. Raises KeyError or TypeError for anything else."""
    findings = {step: StepFinding(**fields) for step, fields in record["found"].items()}
    step = record["step"] if record["step"] in STEPS else STEPS[0]
    written = record.get("written", "")
    return Draft(record["id"], dict(record["spec"]), record["connection"], step, findings, record["changed"], written)


def first_spec() -> dict[str, Any]:
    """The spec of a new draft."""
    return {
        "name": "",
        "source": {"host": "127.0.0.1", "port": 3306, "user": "tidemark", "tables": [], "startup": "initial"},
        "sink": {"type": "delta", "path": "lake"},
        "spark": {"master": "local[*]"},
    }


def _put(values: Mapping[str, Any], path: Sequence[str], value: Any) -> dict[str, Any]:
    name, *rest = path
    section = dict(values)
    if rest:
        below = section.get(name)
        inner = _put(below if isinstance(below, Mapping) else {}, rest, value)
        value = inner or None
    if value is None:
        section.pop(name, None)
    else:
        section[name] = value
    return section


def state_of(draft: Draft, step: str) -> Literal["ok", "warn", "fail", "open"]:
    """A step's state: ok, ok with a warning, failed, or not done yet."""
    if step == "Tables":
        return "ok" if draft.get("source", "tables") else "open"
    finding = draft.finding(step)
    return finding.outcome if finding else "open"


_UNDONE = {
    "Connect": "test the connection",
    "Tables": "choose tables",
    "Preflight": "it runs when you open it, and before a launch",
    "Plan": "it is made when you open it",
    "Destination": "the folder is tried when you open it",
    "Spark": "test Spark; a launch without the test is possible",
}


def why_open(draft: Draft, step: str) -> str:
    """Why a step counts as not done, with what does it. The last step is done by a launch."""
    if step != "Tables" and step in draft.findings and draft.finding(step) is None:
        minute = draft.findings[step].at[:16].replace("T", " ")
        return f"done with other settings: {', '.join(draft.changes_since(step))} changed since {minute} UTC"
    return f"not done yet: {_UNDONE[step]}" if step in _UNDONE else "not done yet: save or launch"


def outdated(draft: Draft) -> str:
    """Which steps were done with other settings, what has changed, and what does them again; empty if none was."""
    changed = {step: draft.changes_since(step) for step in _UNDONE if step != "Tables"}
    reasons = (f"{step}: {', '.join(what)} changed since ({_UNDONE[step]})" for step, what in changed.items() if what)
    return "; ".join(reasons)


def name_fault(name: str, existing_names: Sequence[str]) -> str:
    """Why this cannot be a pipeline's name; empty if it can."""
    if not name:
        return "Give the pipeline a name."
    if not NAME.fullmatch(name):
        return f"This is not a valid name: {NAME_RULE}."
    return f"A pipeline called {name} already exists; choose another name." if name in existing_names else ""


def variable_fault(name: str) -> str:
    """Why this is not the name of an environment variable. The text is not repeated, since it may be a password."""
    if not name or _VARIABLE.fullmatch(name):
        return ""
    return (
        "This is not the name of an environment variable (letters, digits and _), so it was not saved. Do not enter "
        "the password itself here."
    )


def missing(draft: Draft, existing_names: Sequence[str]) -> list[tuple[str, str]]:
    """(step, reason) for each setting without which the pipeline cannot be saved."""
    faults = []
    if fault := name_fault(draft.name, existing_names):
        faults.append(("Connect", fault))
    if not draft.get("source", "tables"):
        faults.append(("Tables", "No table is chosen."))
    return faults


def blockers(draft: Draft, existing_names: Sequence[str]) -> list[tuple[str, str]]:
    """(step, reason) for everything that prevents a launch."""
    faults = missing(draft, existing_names)
    for step in STEPS:
        finding = draft.finding(step)
        if finding and finding.outcome == "fail" and finding.text not in {why for _, why in faults}:
            faults.append((step, finding.text))
    return faults


def unknowns(draft: Draft, *, spark_test: bool = False) -> list[tuple[str, str]]:
    """(step, text) for each step that was not done or has a warning, which does not prevent a launch.

    spark_test: whether the test of Spark is running.
    """
    unseen = {
        "Connect": "The connection was not tested.",
        "Preflight": "Preflight has not run with these settings; the run does it before it reads anything.",
        "Plan": "The plan was not viewed.",
        "Spark": "The test of Spark is still running; a launch does not wait for it."
        if spark_test
        else "Spark was not tested; the run starts it first.",
    }
    sentences = []
    for step in STEPS:
        finding = draft.finding(step)
        if finding is None and step in unseen:
            sentences.append((step, unseen[step]))
        elif finding is not None and finding.outcome == "warn":
            sentences.append((step, finding.text))
    return sentences
