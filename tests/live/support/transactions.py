"""Random transactions on the table of `seed`: the SQL of each, and whether it commits.

Chosen for what a reader of the binlog can get wrong: keys that move (far away, onto a deleted key, swapped), a key
deleted and inserted again in one transaction, many changes of one hot key, several rows per statement and per
transaction, whole rollbacks and rollbacks to a savepoint. A transaction is one string of statements, so that it costs
one round trip, whatever it holds.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

from tests.live.support.seed import STATUSES

HOT_IDS = 16
NOTES = ("it's urgent", 'say "hello"', "back\\\\slash", "名前なし", "naïve café", "")


@dataclass(frozen=True)
class Transaction:
    """`sql` in one string; `commits` is false where it ends in a rollback."""

    kind: str
    sql: str
    commits: bool = True


class Transactions:
    """An endless, reproducible stream of transactions on ``table`` (a quoted name).

    Ids are chosen among the first ``rows`` and around `latest`, the last inserted one, which the caller keeps.
    """

    def __init__(self, table: str, seed: str, rows: int) -> None:
        """`seed` decides the stream; `rows` is the size of the table at the start."""
        self.table, self.rows, self.latest = table, max(rows, HOT_IDS + 1), rows
        self._random = random.Random(seed)
        mix: dict[Callable[[], Transaction], int] = {
            self._insert: 24,
            self._update: 28,
            self._update_hot: 6,
            self._delete: 8,
            self._move_far: 5,
            self._move_onto: 3,
            self._swap: 2,
            self._reinsert: 3,
            self._many_rows: 6,
            self._many_statements: 6,
            self._rollback: 5,
            self._savepoint: 4,
        }
        self._kinds, self._weights = list(mix), list(mix.values())

    def next(self) -> Transaction:
        """The next transaction."""
        return self._random.choices(self._kinds, self._weights)[0]()

    def _id(self) -> int:
        if self._random.random() < 0.15:
            return max(1, self.latest - self._random.randint(0, 1000))
        return self._random.randint(1, self.rows)

    def _note(self) -> str:
        if self._random.random() < 0.3:
            return "NULL"
        note = self._random.choice(NOTES).replace("'", "''")
        return f"'{note} {self._random.getrandbits(32)}'"

    def _row(self, row_id: str = "NULL") -> str:
        r = self._random
        price, micros = f"{r.randint(-99_999, 999_999) / 100:.2f}", r.randint(0, 999_999)
        values = [row_id, str(r.randint(1, 50_000)), f"'SKU-{r.randint(0, 99_999):05d}'", str(r.randint(1, 9)), price]
        values += [f"'{r.choice(STATUSES)}'", self._note(), f"'2026-02-{r.randint(1, 28):02d} 12:34:56.{micros:06d}'"]
        return f"({', '.join(values)}, '2026-03-01 00:00:00', {r.uniform(-1e6, 1e6)!r})"

    def _insert_sql(self, rows: int = 1) -> str:
        return f"INSERT INTO {self.table} VALUES {', '.join(self._row() for _ in range(rows))}"

    def _update_sql(self, where: str) -> str:
        r = self._random
        values = f"quantity = {r.randint(1, 999)}, status = '{r.choice(STATUSES)}', note = {self._note()}"
        return f"UPDATE {self.table} SET {values}, score = {r.uniform(-1e6, 1e6)!r} WHERE {where}"

    def _insert(self) -> Transaction:
        return Transaction("insert", self._insert_sql())

    def _update(self) -> Transaction:
        return Transaction("update", self._update_sql(f"id = {self._id()}"))

    def _update_hot(self) -> Transaction:
        return Transaction("update hot", self._update_sql(f"id = {self._random.randint(1, HOT_IDS)}"))

    def _delete(self) -> Transaction:
        row_id = max(self._id(), HOT_IDS + 1)
        return Transaction("delete", f"DELETE FROM {self.table} WHERE id = {row_id}")

    def _move_far(self) -> Transaction:
        to = self._random.randint(2 * self.rows, 4 * self.rows)  # and no further: the ids stay evenly spread
        return Transaction("move far", f"UPDATE {self.table} SET id = {to} WHERE id = {self._id()}")

    def _move_onto(self) -> Transaction:
        taken, moved = self._id(), self._id()
        move = f"UPDATE {self.table} SET id = {taken}, quantity = quantity + 1 WHERE id = {moved}"
        return self._together("move onto", f"DELETE FROM {self.table} WHERE id = {taken}", move)

    def _swap(self) -> Transaction:
        one, other = sorted((self._id(), self._id()))
        moves = ((one, -one), (other, one), (-one, other))
        return self._together("swap", *(f"UPDATE {self.table} SET id = {b} WHERE id = {a}" for a, b in moves))

    def _reinsert(self) -> Transaction:
        row_id = self._id()
        insert = f"INSERT INTO {self.table} VALUES {self._row(str(row_id))}"
        return self._together("reinsert", f"DELETE FROM {self.table} WHERE id = {row_id}", insert)

    def _many_rows(self) -> Transaction:
        start = self._id()
        span = f"id BETWEEN {start} AND {start + self._random.randint(1, 30)}"
        return Transaction("many rows", self._update_sql(span))

    def _many_statements(self) -> Transaction:
        ids = sorted(self._id() for _ in range(self._random.randint(2, 6)))
        updates = [self._update_sql(f"id = {row_id}") for row_id in ids]
        return self._together("many statements", *updates, self._insert_sql(self._random.randint(1, 8)))

    def _rollback(self) -> Transaction:
        sql = "; ".join(["BEGIN", self._update_sql(f"id = {self._id()}"), self._insert_sql(3), "ROLLBACK"])
        return Transaction("rollback", sql, commits=False)

    def _savepoint(self) -> Transaction:
        undone = [self._update_sql(f"id = {self._id()}"), self._insert_sql(2)]
        return self._together(
            "savepoint", self._insert_sql(), "SAVEPOINT s", *undone, "ROLLBACK TO SAVEPOINT s", self._insert_sql()
        )

    @staticmethod
    def _together(kind: str, *statements: str) -> Transaction:
        return Transaction(kind, "; ".join(["BEGIN", *statements, "COMMIT"]))
