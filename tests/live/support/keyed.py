"""Tables with every kind of chunk key, and writers that insert, change, move and delete their rows.

Row number n of a table has the key `key(n)`, always the same; keys of texts differ by case, accents and trailing
blanks, and the order that the server gives them is not that of their bytes.
"""

import hashlib
import random
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from multiprocessing import get_context
from queue import Empty
from typing import Any, Self

import pymysql
from pymysql.constants import CLIENT

from tests.live.support.traffic import CONFLICTS
from tests.servers import Server

Key = tuple[Any, ...]
_CLIENTS, _A_PACKET = 2, 8


@dataclass(frozen=True)
class Keyed:
    """One kind of key: its columns as SQL and as names, the key of row n, and the configured chunk key.

    moves: the column that updates set to new values of `chunk(n)`, for a chunk key that is not the primary key.
    """

    columns: str
    names: tuple[str, ...]
    key: Callable[[int], Key]
    chunk_key: str | None = None
    only: str | None = None
    moves: str | None = None
    chunk: Callable[[int], Any] = field(default=lambda _: None)


def _digest(n: int) -> str:
    return hashlib.sha256(str(n).encode()).hexdigest()


def _words(letters: str) -> Callable[[int], Key]:
    """Words of few letters, some with a trailing blank, made unique by a number."""

    def key(n: int) -> Key:
        chance = random.Random(n // 3)
        word = "".join(chance.choice(letters) for _ in range(3))
        return (word + (" " if n % 7 == 0 else ""), n)

    return key


def _text(collation: str, letters: str, **more: Any) -> Keyed:
    charset = collation.partition("_")[0]
    columns = f"k VARCHAR(20) CHARACTER SET {charset} COLLATE {collation}, n INT, PRIMARY KEY (k, n)"
    return Keyed(columns, ("k", "n"), _words(letters), **more)


_LATIN, _CHINESE = "aAäÁbBßsSéEøO", "中文啊阿aAbB一丁"
_TENANT = "tenant INT, id INT, PRIMARY KEY (tenant, id)"
_START = datetime.fromisoformat("2024-01-01")
KEYED: dict[str, Keyed] = {
    "unsigned": Keyed("id BIGINT UNSIGNED PRIMARY KEY", ("id",), lambda n: (2**63 - 9000 + 7 * n,)),
    "ai_ci": _text("utf8mb4_0900_ai_ci", _LATIN + "字", only="mysql"),
    "uca": _text("utf8mb4_uca1400_nopad_ai_ci", _LATIN + "字", only="mariadb"),
    "general": _text("utf8mb4_general_ci", _LATIN),
    "bin": _text("utf8mb4_bin", _LATIN),
    "latin1": _text("latin1_swedish_ci", _LATIN),
    "gbk": _text("gbk_chinese_ci", _CHINESE),
    "word": Keyed(
        "k VARCHAR(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci PRIMARY KEY",
        ("k",),
        lambda n: (f"{'aBcDé'[n % 5]}{_digest(n)[:6]}{n}",),
    ),
    "varbinary": Keyed(
        "k VARBINARY(24) PRIMARY KEY",
        ("k",),
        lambda n: (bytes.fromhex(_digest(n))[: n % 5] + b"\0" * (n % 3) + str(n).encode(),),
    ),
    "moment": Keyed(
        "k DATETIME(6) PRIMARY KEY", ("k",), lambda n: (_START + timedelta(seconds=n * n % 9973, microseconds=n),)
    ),
    "stamp": Keyed(
        "k TIMESTAMP(3), n INT, PRIMARY KEY (k, n)", ("k", "n"), lambda n: (_START + timedelta(minutes=n % 50), n)
    ),
    "time": Keyed(
        "k TIME(2), n INT, PRIMARY KEY (k, n)", ("k", "n"), lambda n: (timedelta(seconds=(n * 37) % 9000 - 4000), n)
    ),
    "decimals": Keyed("k DECIMAL(20,4) PRIMARY KEY", ("k",), lambda n: (f"{(n - 1500) * 3}.{n % 10000:04d}",)),
    "doubles": Keyed("k DOUBLE, n INT, PRIMARY KEY (k, n)", ("k", "n"), lambda n: ((n * 37 % 997 - 400) / 7, n)),
    "floats": Keyed("k FLOAT, n INT, PRIMARY KEY (k, n)", ("k", "n"), lambda n: ((n * 37 % 997 - 400) / 8, n)),
    "bits": Keyed("k BIT(20) PRIMARY KEY", ("k",), lambda n: (n * 13,)),
    "tenant": Keyed(_TENANT, ("tenant", "id"), lambda n: (4 if n % 10 else n % 7, n)),
    "abc": Keyed("a INT, b INT, c INT, PRIMARY KEY (a, b, c)", ("a", "b", "c"), lambda n: (-5, n % 3, n)),
    "falling": Keyed("id INT, PRIMARY KEY (id DESC)", ("id",), lambda n: (n * 3,)),
    "mixed": Keyed("a INT, b INT, PRIMARY KEY (a, b DESC)", ("a", "b"), lambda n: (n // 5, n)),
    "uuid": Keyed("k CHAR(36) PRIMARY KEY", ("k",), lambda n: (f"{_digest(n)[:8]}-{_digest(n)[8:12]}-{n}",)),
    "uuids": Keyed(
        "k UUID PRIMARY KEY",
        ("k",),
        lambda n: (f"{_digest(n)[:12]}4{_digest(n)[13:16]}8{_digest(n)[17:32]}",),
        only="mariadb",
    ),
    "inet": Keyed("k INET6 PRIMARY KEY", ("k",), lambda n: (f"::{n * 37 % 65536:x}:{n:x}",), only="mariadb"),
    "uniq": Keyed("k VARCHAR(20) NOT NULL, UNIQUE KEY (k)", ("k",), lambda n: (f"{_digest(n)[:4]}{n}",)),
    "nullable": Keyed(
        "id INT PRIMARY KEY, grp INT NULL, KEY (grp)",
        ("id",),
        lambda n: (n,),
        chunk_key="grp",
        moves="grp",
        chunk=lambda n: None if n % 9 == 0 else n % 400,
    ),
    "ranked": Keyed(
        "id INT PRIMARY KEY, place INT NOT NULL, KEY (place)",
        ("id",),
        lambda n: (n,),
        chunk_key="place",
        moves="place",
        chunk=lambda n: n * 31 % 3000,
    ),
    "titled": Keyed(
        "id INT PRIMARY KEY, title VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL, KEY (title)",
        ("id",),
        lambda n: (n,),
        chunk_key="title",
        moves="title",
        chunk=lambda n: _words(_LATIN)(n * 7 % 4000)[0],
    ),
}


def kinds(server: Server) -> dict[str, Keyed]:
    """The kinds that this server supports."""
    return {name: kind for name, kind in KEYED.items() if kind.only in (None, server.flavor)}


def create(server: Server, database: str, name: str, rows: int) -> None:
    """Create a table of a kind with rows 0 to `rows` - 1, outside the binlog, with fresh statistics."""
    kind, table = KEYED[name], f"`{database}`.`{name}`"
    with closing(server.connect(charset="utf8mb4", autocommit=False)) as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00', sql_log_bin = 0")
        cursor.execute(f"CREATE TABLE {table} ({kind.columns}, v INT, note VARCHAR(30) CHARACTER SET utf8mb4)")
        places = _values(kind)
        cursor.executemany(
            f"INSERT IGNORE INTO {table} ({places}) VALUES ({', '.join(['%s'] * (places.count(',') + 1))})",
            [_row(kind, n, 0) for n in range(rows)],
        )
        connection.commit()
        cursor.execute(f"ANALYZE NO_WRITE_TO_BINLOG TABLE {table}")


def _values(kind: Keyed) -> str:
    return ", ".join([*kind.names, *([kind.moves] if kind.moves else []), "v", "note"])


def _row(kind: Keyed, n: int, v: int) -> tuple[Any, ...]:
    return (*kind.key(n), *([kind.chunk(n)] if kind.moves else []), v, f"row {n}")


class KeyedWriter:
    """Writes to the tables; `committed` counts the transactions that changed something, by table.

    rate: transactions per second that change something, if the server can. The writers are processes that send several
    transactions per packet: threads with one round trip per statement reached a hundred per second.
    """

    def __init__(self, server: Server, database: str, names: list[str], rows: int, rate: float = 200.0) -> None:
        there = (server.host, server.port, database)
        self._names, spawn = names, get_context("spawn")
        self._stopping, self._failures = spawn.Event(), spawn.Queue()
        self._counts = [spawn.Array("L", len(names)) for _ in range(_CLIENTS)]
        self._clients = [
            spawn.Process(
                target=_write,
                args=(there, names, rows, rate / _CLIENTS, number, counts, self._stopping, self._failures),
                daemon=True,
            )
            for number, counts in enumerate(self._counts)
        ]

    @property
    def committed(self) -> dict[str, int]:
        """Transactions so far, by table."""
        return dict(zip(self._names, map(sum, zip(*self._counts, strict=True)), strict=True))

    @property
    def total(self) -> int:
        """Transactions so far."""
        return sum(self.committed.values())

    def __enter__(self) -> Self:
        for client in self._clients:
            client.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the writers and raise the first failure."""
        self._stopping.set()
        for client in self._clients:
            client.join()
        with suppress(Empty):
            raise AssertionError(
                self._failures.get(block=any(client.exitcode for client in self._clients), timeout=5.0)
            )


def _write(
    there: tuple[str, int, str],
    names: list[str],
    rows: int,
    rate: float,
    number: int,
    counts: Any,
    stopping: Any,
    failures: Any,
) -> None:
    """Random transactions of one process on random tables, `rate` per second."""
    try:
        _Client(there, names, rows, random.Random(number)).run(rate, counts, stopping)
    except BaseException as error:
        failures.put(repr(error))
        raise


class _Client:
    """One connection that writes."""

    def __init__(self, there: tuple[str, int, str], names: list[str], rows: int, chance: random.Random) -> None:
        self._names, self._rows, self._chance = names, rows, chance
        host, port, database = there
        self._connection = pymysql.connect(
            host=host,
            port=port,
            user="root",
            database=database,
            autocommit=True,
            charset="utf8mb4",
            client_flag=CLIENT.MULTI_STATEMENTS,
            init_command="SET time_zone = '+00:00'",
        )

    def run(self, rate: float, counts: Any, stopping: Any) -> None:
        """Write until stopped."""
        with closing(self._connection):
            due = time.monotonic()
            while not stopping.is_set():
                changed = 0
                for at in self._packet():
                    counts[at] += 1
                    changed += 1
                due = max(due + changed / rate, time.monotonic() - 1.0)
                time.sleep(max(0.0, due - time.monotonic()))

    def _packet(self) -> Iterator[int]:
        """Send a packet of transactions with up to three statements each; returns the tables that changed.

        A deadlock ends the packet.
        """
        words, ends = [], {}
        with self._connection.cursor() as cursor:
            for _ in range(_A_PACKET):
                at = self._chance.randrange(len(self._names))
                name = self._names[at]
                made = [self._statement(KEYED[name], name, self._chance) for _ in range(self._chance.randrange(1, 4))]
                words += ["BEGIN", *(cursor.mogrify(sql, values) for sql, values in made), "COMMIT"]
                ends[len(words)] = at
            try:
                changed, done = cursor.execute("; ".join(words)), 1
                while cursor.nextset():
                    changed, done = changed + cursor.rowcount, done + 1
                    if done in ends:
                        if changed:
                            yield ends[done]
                        changed = 0
            except pymysql.err.MySQLError as error:
                self._connection.rollback()
                if error.args[0] not in CONFLICTS:
                    raise

    def _statement(self, kind: Keyed, name: str, chance: random.Random) -> tuple[str, tuple[Any, ...]]:
        n, other = chance.randrange(self._rows), chance.randrange(self._rows * 2)
        same = " AND ".join(f"{column} = %s" for column in kind.names)
        what = chance.random()
        if what < 0.25:
            columns = _values(kind)
            marks = ", ".join(["%s"] * (columns.count(",") + 1))
            return f"INSERT IGNORE INTO `{name}` ({columns}) VALUES ({marks})", _row(kind, other, 1)
        if what < 0.45:
            return f"DELETE FROM `{name}` WHERE {same}", kind.key(n)
        if what < 0.65 and kind.moves:
            return f"UPDATE `{name}` SET {kind.moves} = %s, v = v + 1 WHERE {same}", (kind.chunk(other), *kind.key(n))
        if what < 0.65:
            new = ", ".join(f"{column} = %s" for column in kind.names)
            return f"UPDATE IGNORE `{name}` SET {new} WHERE {same}", (*kind.key(other), *kind.key(n))
        return f"UPDATE `{name}` SET v = v + 1 WHERE {same}", kind.key(n)
