"""The spec with which a pipeline's newest run began, from its journal."""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from pydantic import TypeAdapter, ValidationError

from engine.journal import entry_from
from engine.journal.events import RunStarted
from engine.journal.parts import parts_in
from engine.pipeline.directory import Directory
from engine.spec.settings import Spec
from engine.spec.sink_settings import Sink


def spec_of_newest_run(directory: Directory) -> Spec | None:
    """The spec with which the newest run began; None if no run says that, or if this version cannot read it."""
    parts = [part for part in parts_in(directory.journals) if not part.first]
    if not parts:
        return None
    with suppress(OSError, ValueError, KeyError, ValidationError), parts[-1].open() as file:
        entry = entry_from(json.loads(file.readline()))
        if entry is not None and isinstance(entry.event, RunStarted):
            return Spec.model_validate({name: _section(name, value) for name, value in entry.event.spec.items()})
    return None


def _section(name: str, value: Any) -> Any:
    """A section of the spec, as a file may have it."""
    if name == "sinks":
        return [_given(one) for one in value]
    return _given(value) if name == "sink" else value


def _given(sink: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a sink that are not the defaults: some are refused for some types and paths."""
    as_json = TypeAdapter[Any](Any)
    defaults = {
        name: as_json.dump_python(field.get_default(call_default_factory=True), mode="json")
        for name, field in Sink.model_fields.items()
        if not field.is_required()
    }
    return {name: value for name, value in sink.items() if name not in defaults or value != defaults[name]}
