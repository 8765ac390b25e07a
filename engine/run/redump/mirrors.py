"""The mirrors that a redump compares a part with: it deletes the rows there that the source has not."""

from engine.base.errors import SpecError
from engine.capture.captured_tables import CapturedTables
from engine.capture.landing import MirrorReader, NoMirror
from engine.destination.registry import tables_of
from engine.spec.settings import Spec


def mirrors_of(spec: Spec, captured: CapturedTables, name: str, sink: str) -> tuple[MirrorReader, ...]:
    """Those of a table: of the first destination, and of a further sink that the command names.

    sink: "" for none. Raises SpecError for one that cannot be read back.
    """
    first = captured.reader(name)
    if not sink:
        return (first,)
    tables = tables_of(spec.sink_named(sink))
    if tables is None:
        raise SpecError(
            f"The tables of sink {sink} are not read back.",
            detail="Nothing was read.",
            hint="Redump without --sink: every destination gets the rows.",
        )
    further = tables.reader(captured.tables[name])
    return (further,) if isinstance(first, NoMirror) else (first, further)
