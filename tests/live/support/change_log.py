"""Checks of a change log against its mirror."""

from contextlib import closing
from typing import Any

import duckdb
import pyarrow as pa

from tests.live.support.keyed import KEYED


def change_log_faults(log: pa.Table, mirror: pa.Table, name: str, *, whole: bool) -> list[Any]:
    """Duplicate `_tm_seq` in a change log and, if the log is complete, keys for which it disagrees with the mirror."""
    key = ", ".join(f'"{column}"' for column in KEYED[name].names)
    with closing(duckdb.connect()) as db:
        db.execute("SET TimeZone = 'UTC'")
        db.register("log", log)
        db.register("mirror", mirror)
        found = db.sql("SELECT _tm_seq FROM log GROUP BY 1 HAVING count(*) > 1 LIMIT 5").fetchall()
        if whole:
            db.execute(
                f"CREATE VIEW newest AS SELECT * FROM log QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY "
                "_tm_seq DESC) = 1"
            )
            there = f"SELECT {key}, v FROM newest WHERE _tm_kind IN ('+I', '+U')"
            gone = f"SELECT {key} FROM newest WHERE _tm_kind IN ('-U', '-D')"
            found += db.sql(f"({there} EXCEPT SELECT {key}, v FROM mirror) LIMIT 5").fetchall()
            found += db.sql(f"({gone} INTERSECT SELECT {key} FROM mirror) LIMIT 5").fetchall()
    return list(found)
