"""Operator settings that outlive the runner: `controls.json`."""

import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from engine.base.durable import write_atomically
from engine.base.errors import SpecError
from engine.pipeline import formats
from engine.pipeline.directory import Directory


@dataclass(frozen=True)
class Controls:
    """Settings from commands, which override the spec."""

    throttle: dict[str, Any] = field(default_factory=dict)
    """Throttle settings that replace the spec's."""
    snapshot: bool = False
    """Whether the snapshot of all tables is paused."""
    tables: tuple[str, ...] = ()
    """Tables whose snapshot is paused."""
    sinks: tuple[str, ...] = ()
    """Further sinks that are paused."""
    until: str = ""
    """UTC text; then `throttle` becomes `later` again. Empty: it stays."""
    later: dict[str, Any] = field(default_factory=dict)
    """The throttle settings after a throttle for some time."""

    def as_dict(self) -> dict[str, Any]:
        """For `controls.json` and `runner.json`; without the end of a throttle that has none, and without no sinks."""
        record = asdict(self)
        unused = [*(["until", "later"] if not self.until else []), *(["sinks"] if not self.sinks else [])]
        return {name: value for name, value in record.items() if name not in unused}

    def throttled(self, changes: dict[str, Any], until: str = "") -> "Controls":
        """The controls after a command that changes throttle settings, for ever or until a time (UTC text).

        During a throttle for some time, one without an end keeps all that is set; another one with an end only moves
        the end.
        """
        settings = {**self.throttle, **changes}
        if not until:
            return replace(self, throttle=settings, until="", later={})
        return replace(self, throttle=settings, until=until, later=self.later if self.until else self.throttle)

    def unthrottled(self) -> "Controls":
        """The controls after a command that returns to the spec's throttle."""
        return replace(self, throttle={}, until="", later={})

    def at(self, now: str) -> "Controls":
        """The controls at a time (UTC text): a throttle whose time is over has ended."""
        return replace(self, throttle=self.later, until="", later={}) if self.until and now >= self.until else self

    def pausing(self, table: str) -> bool:
        """Whether a table must not be read now."""
        return self.snapshot or table in self.tables

    @staticmethod
    def sinks_of(arguments: dict[str, Any]) -> frozenset[str]:
        """The sinks that a pause or resume names."""
        return frozenset(arguments.get("sinks", ()))

    def paused(self, arguments: dict[str, Any], *, pause: bool) -> "Controls":
        """The controls after a pause or resume of `{"snapshot": true}`, `{"tables": [...]}` or `{"sinks": [...]}`."""
        if arguments.get("snapshot"):
            return replace(self, snapshot=pause)
        if sinks := self.sinks_of(arguments):
            return replace(self, sinks=tuple(sorted(sinks | {*self.sinks} if pause else {*self.sinks} - sinks)))
        named = set(arguments["tables"])
        tables = set(self.tables) | named if pause else set(self.tables) - named
        return replace(self, tables=tuple(sorted(tables)))


def load_controls(directory: Directory) -> Controls:
    """The saved controls. Raises SpecError for an invalid file, NewerFormatError for a newer version's."""
    try:
        record = json.loads(directory.controls.read_text(encoding="utf-8"))
        formats.check("controls", record, directory.controls)
        record = formats.without(record)
        lists = {name: tuple(record.get(name, ())) for name in ("tables", "sinks")}
        return Controls(**{**record, **lists})
    except FileNotFoundError:
        return Controls()
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise SpecError(
            f"{directory.controls} is not a valid file of operator settings: {error!r}.",
            detail="Nothing was started, as a pause or a limit would be lost.",
            hint="Repair it, or delete it to continue without pauses and with the spec's limits.",
        ) from error


def save_controls(directory: Directory, controls: Controls) -> None:
    """Save the controls."""
    write_atomically(directory.controls, json.dumps(formats.stamped("controls", controls.as_dict()), indent=1))
