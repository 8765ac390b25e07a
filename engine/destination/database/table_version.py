"""The rows of a table in a database, as one transaction sees them."""

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from engine.base.errors import DestinationError
from engine.capture.landing import Commit, TableVersion
from engine.decode.arrow_schema import image_schema
from engine.decode.schema import Table
from engine.destination.database.database_state import AppliedRecord, TableRecord
from engine.destination.database.sql_conditions import where_of
from engine.destination.database.sql_server import DatabaseSession, SqlServer, qualified
from engine.destination.destination_protocol import CHANGES, CHUNKS, MERGE
from engine.plan.row_conditions import EVERY_ROW, RowCondition

if TYPE_CHECKING:
    from pyarrow.dataset import Dataset

T = TypeVar("T")
_KINDS = (CHUNKS, CHANGES, MERGE)


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
        weakref.finalize(self, _close, session, server.failures)

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
        there = {one.name: one for one in self._record.columns}
        chosen = [there[name] for name in columns if name in there]
        lists = {one.name for one in self._table.columns if one.type == "vector"}
        where = self._where(condition or EVERY_ROW)
        rows = self._server.reads.rows(self._session, self._record.place, chosen, lists, where)
        while (batch := self._explaining(lambda: next(rows, None))) is not None:
            yield batch

    def count(self, condition: RowCondition) -> int:
        """The number of rows that match the condition."""
        table = qualified(self._server, self._record.place)
        statement = f"SELECT count(*) FROM {table} WHERE {self._where(condition)}"
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

    def _where(self, condition: RowCondition) -> str:
        return where_of(condition, self._server.quoted, self._server.reads.literals)

    def _explaining(self, action: Callable[[], T]) -> T:
        try:
            return action()
        except self._server.failures as error:
            raise self._server.explained(error) from error


def _close(session: DatabaseSession, failures: tuple[type[Exception], ...]) -> None:
    with suppress(*failures):
        session.rollback()
    with suppress(*failures):
        session.close()
