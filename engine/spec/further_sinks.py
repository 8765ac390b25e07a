"""`[[sinks]]` of a spec: which sink is the first one, and what the others must be."""

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from engine.base.errors import SpecError
from engine.spec.pipeline_name import NAME, NAME_RULE
from engine.spec.sink_settings import Sink


def with_first_sink(values: Any) -> Any:
    """The values of a spec, with `sink`: without that section, the first of `sinks` with mirrors, else the first.

    Values of another form are returned as they are; they are refused later.
    """
    sinks = values.get("sinks") if isinstance(values, dict) else None
    if not isinstance(sinks, list) or "sink" in values or not sinks:
        return values
    kinds = [one.get("type", "delta") if isinstance(one, dict) else "" for one in sinks]
    first = kinds.index("delta") if "delta" in kinds else 0
    return {**values, "sink": sinks[first], "sinks": [*sinks[:first], *sinks[first + 1 :]]}


def check_further(sinks: Sequence[Sink]) -> None:
    """Raises ValueError for sinks without a name of their own, or with mirrors."""
    names = [sink.name for sink in sinks]
    for name in names:
        if not NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not a valid name for a sink: {NAME_RULE}")
    if len(set(names)) < len(names):
        raise ValueError("two sinks have the same name")
    for sink in sinks:
        if (sink.kafka or sink.database) and not sink.has_no_folder:
            raise ValueError(
                f'path: a further sink with type = "{sink.type}" has none: the first one has the readers\' files'
            )
    if any(sink.has_mirrors for sink in sinks):
        raise ValueError('a pipeline has one sink with type = "delta", and it is the first one')


def sink_named(first: Sink, sinks: Sequence[Sink], name: str) -> Sink:
    """A further sink; "" for the first one. Raises SpecError for a name that the spec does not have."""
    if not name:
        return first
    for one in sinks:
        if one.name == name:
            return one
    names = ", ".join(one.name for one in sinks)
    raise SpecError(
        f"The spec has no sink {name}.",
        detail="Nothing was done.",
        hint=f"Its further sinks: {names}." if names else "It has no further sinks ([[sinks]]).",
    )


def below(root: Path, first: Sink, sinks: Sequence[Sink], spec_file: Path) -> tuple[Sink, ...]:
    """The further sinks, with paths below the spec's folder. Raises SpecError if two sinks share one."""
    absolute = tuple(one.below(root) for one in sinks)
    if any(one.overlaps(other) for one, other in combinations((first, *absolute), 2)):
        raise SpecError(
            f"{spec_file} has two sinks in one place.",
            detail="Their files would be mixed; nothing was started.",
            hint="Give each sink a path of its own, outside of the others.",
        )
    return absolute
