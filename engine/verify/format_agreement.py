"""Whether the other formats of tables have just what the tables have: `verify --format both`."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from engine.base.wording import plural
from engine.capture.projection.table_projection import published_as
from engine.decode.schema import table_from_dict
from engine.destination.capabilities import FormatAgreement, Maintainable
from engine.destination.registry import destination_of
from engine.ledger.state import State
from engine.pipeline.directory import Directory
from engine.spec.settings import Spec

FORMATS = ("delta", "iceberg", "both")
"""What `verify --format` takes."""


@dataclass(frozen=True)
class FormatResult:
    """The comparison of another format of a table."""

    table: str
    """The captured table's full name."""
    agreement: FormatAgreement

    @property
    def differs(self) -> bool:
        """Whether it has something else."""
        return bool(self.agreement.differences)

    def as_dict(self) -> dict[str, Any]:
        """The fields for JSON."""
        return {"table": self.table, **asdict(self.agreement)}

    def sentences(self) -> Iterator[str]:
        """What was found, and what to do."""
        one = self.agreement
        what = f"{self.table}, {one.format} in {one.place}"
        if not self.differs:
            counts = f"{plural(one.files, 'file')}, {plural(one.rows, 'row')}"
            yield f"{what}: as the Delta table in version {one.version}, {counts}"
            return
        yield from (f"{what}: {difference}" for difference in one.differences)
        yield f"Delete the folder {one.place}: the next change of the table publishes it again."


def compare_formats(spec: Spec, directory: Directory, state: State, tables: Iterable[str]) -> list[FormatResult]:
    """Each other format of these tables. Raises DestinationError."""
    destination, results = destination_of(spec.sink, directory.maintenance), list[FormatResult]()
    for name in tables:
        table_state = state.tables[name]
        if not table_state.begun:
            continue
        table = published_as(table_from_dict(table_state.table), table_state.projection)
        stored = destination.table(state.owner, table)
        if isinstance(stored, Maintainable):
            results += [FormatResult(name, one) for one in stored.maintenance().compare_formats()]
    return results
