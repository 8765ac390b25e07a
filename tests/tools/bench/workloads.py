"""What is written while a pipeline does not run, for it to catch up with: inserts, deletes and updates as 1 : 1 : 3.

The same table is changed in two ways: row by row, each change a transaction of its own, and in bulk, each statement a
transaction of many rows. Figures count row images, of which an insert or a delete has one and an update two.
"""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from tests.servers import Server
from tests.tools.bench.schemas import Schema

BULK_ROWS = 2_000

# `n` counts the changes. Deletes take even ids and updates odd ones, so that each of them finds its row.
_CHANGES = """
CREATE PROCEDURE `{database}`.change_rows(IN changes INT, IN rows_there INT)
BEGIN
  DECLARE n INT DEFAULT 0;
  WHILE n < changes DO
    CASE n MOD 5
      WHEN 0 THEN {insert};
      WHEN 1 THEN DELETE FROM {table} WHERE id = 2 + 2 * (n * 7919 MOD (rows_there DIV 2));
      ELSE UPDATE {table} SET {update} WHERE id = 1 + 2 * (n * 104729 MOD (rows_there DIV 2));
    END CASE;
    SET n = n + 1;
  END WHILE;
END"""


@dataclass(frozen=True)
class Workload:
    """A way of writing: `write(server, database, schema, rows, changes)`.

    It writes to a table filled with `rows`, and returns the images written.

    factor: changes for each one of the schema's.
    """

    name: str
    label: str
    factor: int
    write: Callable[[Server, str, Schema, int, int], int]


def _single(server: Server, database: str, schema: Schema, rows: int, changes: int) -> int:
    table = f"`{database}`.`{schema.table}`"
    procedure = _CHANGES.replace("{insert}", schema.insert).replace("{update}", schema.update)
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00', sql_mode = 'STRICT_TRANS_TABLES'")
        cursor.execute(procedure.replace("{database}", database).replace("{table}", table))
        cursor.execute(f"CALL `{database}`.change_rows(%s, %s)", (changes, rows))
    return changes + sum(1 for n in range(changes) if n % 5 > 1)


def _bulk(server: Server, database: str, schema: Schema, rows: int, changes: int) -> int:
    """Deletes go down from the end of the first `rows`, updates up from their beginning.

    Neither counts what is gone.
    """
    table = f"`{database}`.`{schema.table}`"
    size = min(BULK_ROWS, changes)
    images = deletes = updates = 0
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00', sql_mode = 'STRICT_TRANS_TABLES'")
        cursor.execute(f"SELECT MAX(id) FROM {table}")
        last = int(cursor.fetchone()[0])
        for n in range(changes // size):
            if n % 5 == 0:
                images += cursor.execute(schema.fill.replace("{table}", table), (last, last + size))
                last += size
            elif n % 5 == 1:
                high = rows - deletes * size
                images += cursor.execute(f"DELETE FROM {table} WHERE id > %s AND id <= %s", (high - size, high))
                deletes += 1
            else:
                low = updates * size % max(rows // 2, size)
                sql = f"UPDATE {table} SET {schema.update} WHERE id > %s AND id <= %s"
                images += 2 * cursor.execute(sql, (low, low + size))
                updates += 1
    return images


WORKLOADS = (
    Workload("single", "single-row transactions", 1, _single),
    Workload("bulk", f"transactions of {BULK_ROWS:,} rows", 2, _bulk),
)
