"""The rows of a table in a database, as one transaction sees them."""

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from engine.base.errors import DestinationError
from engine.capture.landing import Commit, TableVersion
from engine.decode.arrow_schema import image_schema
from engine.decode.schema import Table
from engine.destination.database.database_state import AppliedRecord, TableRecord
from engine.destination.database.sql_conditions import where_of
from engine.destination.database.sql_server import DatabaseSession, SqlServer, qualified
from engine.destination.destination_protocol import CHANGES, CHUNKS, MERGE
from engine.plan.row_conditions import EVERY_ROW, OneOf, RowCondition, columns_of, expression_of

if TYPE_CHECKING:
    from pyarrow.dataset import Dataset

T = TypeVar("T")
_KINDS = (CHUNKS, CHANGES, MERGE)
_MOST_VALUES = 2_000
"""Values that a statement names."""


class DatabaseVersion:
    """One version: the transaction lasts until nobody has it any more. Used by one thread at a time."""

    def __init__(
        self,
        server: SqlServer,
        session: DatabaseSession,
        table: Table,
        record: TableRecord,
        applied: Mapping[str, AppliedRecord],
        epoch: int,
    ) -> None:
        """session: in a transaction that sees one version. applied: by the count of epochs."""
        self._server = server
        self._session = session
        self._table = table
        self._record = record
        self._applied = applied
        self.version = epoch
        self._end = weakref.finalize(self, _close, session, server.failures)

    @property
    def keeps_others_out(self) -> bool:
        """Whether it holds a file that one process at a time has open."""
        return not self._server.shares

    def release(self) -> None:
        """End the transaction and the session."""
        self._end()

    @property
    def created_at(self) -> datetime:
        """Not known: a database does not say."""
        return datetime.min.replace(tzinfo=UTC)

    @property
    def schema(self) -> pa.Schema:
        """The columns that the pipeline has made, with the types of the captured table as far as it has them."""
        schema = image_schema(self._table)
        fields = [(one.name, schema.field(one.name).type) for one in self._record.columns if one.name in schema.names]
        return pa.schema(
            [*fields, *((one.name, pa.null()) for one in self._record.columns if one.name not in schema.names)]
        )

    def at(self, version: int) -> TableVersion | None:
        """None: earlier ones are gone."""
        return None

    def foreign_commits(self, max_commits: int) -> Sequence[Commit]:
        """None: a database does not name those who write."""
        return ()

    def transaction(self, application: str) -> int:
        """The last epoch of a kind."""
        for count, applied in self._applied.items():
            for kind in _KINDS:
                if application == f"tidemark-{count}-{kind}":
                    return applied.epoch(kind)
        return -1

    def batches(self, columns: Sequence[str], condition: RowCondition | None = None) -> Iterator[pa.Table]:
        """Batches of the rows that match the condition; columns that the table lacks are left out."""
        condition = condition or EVERY_ROW
        if isinstance(condition, OneOf) and len(condition.values) > _MOST_VALUES:
            for first in range(0, len(condition.values), _MOST_VALUES):
                some = OneOf(condition.column, condition.values[first : first + _MOST_VALUES])
                yield from self.batches(columns, some)
            return
        there = {one.name: one for one in self._record.columns}
        lists = {one.name for one in self._table.columns if one.type == "vector"}
        question, left = self._asked(condition)
        names = [name for name in dict.fromkeys([*columns, *columns_of(left)]) if name in there]
        where = where_of(question, self._server.quoted, self._server.reads.literals)
        chosen = [there[name] for name in names]
        rows = self._server.reads.rows(self._session, self._record.place, chosen, lists, where)
        while (batch := self._explaining(lambda: next(rows, None))) is not None:
            batch = self._as_captured(batch)
            if left != EVERY_ROW:
                batch = batch.filter(expression_of(left))
            yield batch.select([name for name in columns if name in there])

    def _asked(self, condition: RowCondition) -> tuple[RowCondition, RowCondition]:
        """What the server is asked for, and what is left for Arrow.

        A FLOAT that is stored as a DOUBLE is another number there: the one that its text means.
        """
        floats = {one.name for one in self._table.columns if one.type == "float"}
        is_float = not self._server.has_floats and not floats.isdisjoint(columns_of(condition))
        return (EVERY_ROW, condition) if is_float else (condition, EVERY_ROW)

    def _as_captured(self, rows: pa.Table) -> pa.Table:
        """The rows, with the fractions that the captured columns have now: they may have become shorter."""
        for number, name in enumerate(rows.column_names):
            column = next((one for one in self._table.columns if one.name == name), None)
            if column is None:
                continue
            if column.type == "float" and pa.types.is_float64(rows.schema.field(name).type):
                rows = rows.set_column(number, name, rows[name].cast(pa.float32()))
            elif column.type in ("time", "decimal") and pa.types.is_string(rows.schema.field(name).type):
                places = column.fraction if column.type == "time" else column.scale
                rows = rows.set_column(number, name, _shortened(rows[name], places or 0))
        return rows

    def count(self, condition: RowCondition) -> int:
        """The number of rows that match the condition."""
        question, left = self._asked(condition)
        if left != EVERY_ROW:
            return sum(batch.num_rows for batch in self.batches(sorted(columns_of(left)), condition))
        table = qualified(self._server, self._record.place)
        where = where_of(question, self._server.quoted, self._server.reads.literals)
        statement = f"SELECT count(*) FROM {table} WHERE {where}"
        return int(self._explaining(lambda: self._session.query(statement))[0][0])

    def size(self) -> tuple[int, int]:
        """Its number of rows, and the bytes that the database counts."""
        rows = self.count(EVERY_ROW)
        return rows, self._explaining(lambda: self._server.reads.stored_bytes(self._session, self._record.place))

    def scan(self) -> "Dataset":
        """Refused: what queries it is the database."""
        raise DestinationError(
            f"{self._record.place} in {self._server.place} is not queried by Tidemark.",
            detail="Nothing was read.",
            hint="Query it in the database.",
        )

    def _explaining(self, action: Callable[[], T]) -> T:
        try:
            return action()
        except self._server.failures as error:
            raise self._server.explained(error) from error


def _shortened(texts: pa.ChunkedArray, places: int) -> pa.ChunkedArray:
    """Numbers as texts with so many places, if what is cut is zero."""
    pattern, replacement = (r"\.0+$", "") if places == 0 else (rf"(\.\d{{{places}}})0+$", r"\1")
    return pc.replace_substring_regex(texts, pattern, replacement)


def _close(session: DatabaseSession, failures: tuple[type[Exception], ...]) -> None:
    with suppress(*failures):
        session.rollback()
    with suppress(*failures):
        session.close()
