"""A pipeline that is being made: its spec so far, and what each step found out. Pure; `parts.wizard.drafts` keeps it on disk.

The spec is the nested dictionary that its TOML says, so whatever was written by hand survives the steps that know nothing of
it. What a step found out is kept with a fingerprint of all that it depends on, so that a change makes it stale by itself. A
draft holds no secret: passwords come by reference only.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from engine import formats
from engine.settings import NAME, NAME_RULE

Outcome = Literal["ok", "warn", "fail"]

STEPS = ("Connect", "Preflight", "Tables", "Plan", "Destination", "Spark", "Launch")
_DEPENDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "Connect": (("source", "host"), ("source", "port"), ("source", "user"), ("source", "password_env"),
                ("source", "password_file"), ("source", "tls"), ("source", "tls_ca")),
    "Spark": (("spark",), ("sink", "path")),
    "Destination": (("name",), ("sink",), ("source", "startup")),
}  # fmt: skip
_DEPENDS["Preflight"] = (*_DEPENDS["Connect"], ("source",), ("tables",), ("name",))
_DEPENDS["Plan"] = (*_DEPENDS["Connect"], ("source", "tables"), ("snapshot",), ("throttle",))
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Found:
    """What a step found out. of: the fingerprint of what it looked at. text: a line for the summary. at: when, in UTC."""

    outcome: Outcome
    text: str
    of: str
    at: str


@dataclass(frozen=True)
class Draft:
    """id: names its file and its address. connection: the saved connection that it began with. step: where it was left.

    written: the spec as somebody wrote it last, for its comments; the values are those of `spec`.
    """

    id: str
    spec: dict[str, Any] = field(default_factory=dict)
    connection: str = ""
    step: str = STEPS[0]
    found: dict[str, Found] = field(default_factory=dict)
    changed: str = ""
    written: str = ""

    @property
    def name(self) -> str:
        """The pipeline's name; empty while it has none."""
        return str(self.spec.get("name", ""))

    def get(self, *path: str, default: Any = None) -> Any:
        """A value of the spec, or the default."""
        here: Any = self.spec
        for part in path:
            if not isinstance(here, Mapping) or part not in here:
                return default
            here = here[part]
        return here

    def put(self, *path: str, value: Any) -> "Draft":
        """The draft with one value of the spec set; None removes it, and the sections that are empty then."""
        return replace(self, spec=_put(self.spec, path, value))

    def fingerprint(self, step: str) -> str:
        """Of all that a step's finding depends on."""
        told = [self.get(*path) for path in _DEPENDS.get(step, ())]
        return hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()[:16]

    def note(self, step: str, outcome: Outcome, text: str, at: str) -> "Draft":
        """The draft with a step's finding."""
        return replace(self, found={**self.found, step: Found(outcome, text, self.fingerprint(step), at)})

    def finding(self, step: str) -> Found | None:
        """What a step found out, as long as it still holds."""
        found = self.found.get(step)
        return found if found and found.of == self.fingerprint(step) else None

    def as_dict(self) -> dict[str, Any]:
        """For the disk; `from_dict` is the inverse."""
        return {
            formats.FIELD: formats.VERSIONS["draft"],
            "id": self.id,
            "changed": self.changed,
            "connection": self.connection,
            "step": self.step,
            "found": {step: vars(found) for step, found in self.found.items()},
            "spec": self.spec,
            "written": self.written,
        }


def from_dict(record: Mapping[str, Any]) -> Draft:
    """The inverse of `Draft.as_dict`. Raises KeyError or TypeError for what is none."""
    found = {step: Found(**told) for step, told in record["found"].items()}
    step = record["step"] if record["step"] in STEPS else STEPS[0]
    written = record.get("written", "")
    return Draft(record["id"], dict(record["spec"]), record["connection"], step, found, record["changed"], written)


def first_spec() -> dict[str, Any]:
    """What a new draft says before anything was chosen."""
    return {
        "name": "",
        "source": {"host": "127.0.0.1", "port": 3306, "user": "tidemark", "tables": [], "startup": "initial"},
        "sink": {"type": "delta", "path": "lake"},
        "spark": {"master": "local[*]"},
    }


def _put(values: Mapping[str, Any], path: Sequence[str], value: Any) -> dict[str, Any]:
    name, *rest = path
    made = dict(values)
    if rest:
        below = made.get(name)
        inner = _put(below if isinstance(below, Mapping) else {}, rest, value)
        value = inner or None
    if value is None:
        made.pop(name, None)
    else:
        made[name] = value
    return made


def state_of(draft: Draft, step: str) -> Literal["ok", "warn", "fail", "open"]:
    """How a step stands: done, done with something to know, in the way of a launch, or not yet done."""
    if step == "Tables":
        return "ok" if draft.get("source", "tables") else "open"
    found = draft.finding(step)
    return found.outcome if found else "open"


def name_fault(name: str, taken: Sequence[str]) -> str:
    """Why a pipeline cannot be called so; empty when it can."""
    if not name:
        return "Give the pipeline a name."
    if not NAME.fullmatch(name):
        return f"This is no name: {NAME_RULE}."
    return f"There is a pipeline called {name} already; choose another name." if name in taken else ""


def variable_fault(name: str) -> str:
    """Why this is not the name of an environment variable; it may be a password, so it is not repeated."""
    if not name or _VARIABLE.fullmatch(name):
        return ""
    return (
        "This is not the name of an environment variable (letters, digits and _), and it was not kept. A password itself does "
        "not belong here."
    )


def missing(draft: Draft, taken: Sequence[str]) -> list[tuple[str, str]]:
    """(step, why) for each thing without which there is no pipeline to save."""
    found = []
    if fault := name_fault(draft.name, taken):
        found.append(("Connect", fault))
    if not draft.get("source", "tables"):
        found.append(("Tables", "No table is chosen."))
    return found


def blockers(draft: Draft, taken: Sequence[str]) -> list[tuple[str, str]]:
    """(step, why) for each thing that stands in the way of a launch."""
    found = missing(draft, taken)
    for step in STEPS:
        finding = draft.finding(step)
        if finding and finding.outcome == "fail" and finding.text not in {why for _, why in found}:
            found.append((step, finding.text))
    return found


def unknowns(draft: Draft) -> list[tuple[str, str]]:
    """(step, what) for each thing that was not looked at, or must be known, though it can be launched so."""
    unseen = {
        "Connect": "The connection was not tested.",
        "Preflight": "Preflight has not seen these settings; the run does it before it reads anything.",
        "Plan": "The plan was not looked at.",
        "Spark": "Spark was not tested; the run starts it first.",
    }
    found = []
    for step in STEPS:
        finding = draft.finding(step)
        if finding is None and step in unseen:
            found.append((step, unseen[step]))
        elif finding is not None and finding.outcome == "warn":
            found.append((step, finding.text))
    return found
