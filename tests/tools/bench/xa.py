"""`python -m tests.tools.bench.xa`: catching up with XA transactions, compared with plain ones.

Two servers get the same single-row changes from the same number of sessions. On one they are plain transactions. On the
other they are XA transactions (`XA START`, the change, `XA END`, `XA PREPARE`, `XA COMMIT`), which the sessions
interleave. Then a copy of each server's pipeline catches up, in turns, and so does decoding alone. The figure is the
median ratio of two neighbouring runs, which have the same noise.
"""

import argparse
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from statistics import median
from typing import Any

from pymysql.constants import CLIENT, COMMAND

from engine.source.positions import Position
from tests.live.support.pipeline import Pipeline
from tests.servers import FLAVORS, Server, start
from tests.tools.bench.log import catch_up, decode, position
from tests.tools.bench.measure import DATABASE
from tests.tools.bench.measure import run as run_pipeline
from tests.tools.bench.schemas import NARROW, fill

SESSIONS = 12
_AT_ONCE = 10
"""Transactions in one text of a session."""


@dataclass(frozen=True)
class Source:
    """A server whose changes are written, and its pipeline, which has only copied the table."""

    server: Server
    pipeline: Pipeline
    start: Position
    end: Position
    images: int

    def rates(self, number: int) -> tuple[float, float]:
        """Images per second: decoded in this process, and committed by a copy of the pipeline."""
        took_s = decode(self.server, NARROW, self.start, self.end, self.images)
        folder = self.pipeline.folder.with_name(f"{self.pipeline.folder.name}-{number}")
        copy = Pipeline(self.server, DATABASE, shutil.copytree(self.pipeline.folder, folder, symlinks=True))
        committed = catch_up(copy, self.images)["committed"]
        shutil.rmtree(folder)
        return self.images / took_s, float(committed)


def changes(most: int) -> Iterator[tuple[str, int]]:
    """Yield single-row changes and their number of images: inserts, deletes and updates as 1 : 1 : 3.

    No row is changed twice, in a table of twice as many rows.
    """
    table = f"{DATABASE}.{NARROW.table}"
    insert = re.sub(r"\bn\b", "@n", NARROW.insert).format(table=table)
    for n in range(most):
        if n % 5 == 0:
            yield f"SET @n = {n}; {insert}", 1
        elif n % 5 == 1:
            yield f"DELETE FROM {table} WHERE id = {2 + 2 * (n * 7919 % most)}", 1
        else:
            yield f"UPDATE {table} SET {NARROW.update} WHERE id = {1 + 2 * (n * 104_729 % most)}", 2


def write(server: Server, most: int, *, xa: bool) -> int:
    """Make the changes in `SESSIONS` sessions at once. Returns the number of images."""
    made, images = changes(most), 0
    with ExitStack() as stack:
        sessions = [_Session(stack.enter_context(closing(_connect(server))), n, xa=xa) for n in range(SESSIONS)]
        while group := [*islice(made, SESSIONS * _AT_ONCE)]:
            images += sum(size for _, size in group)
            for n, session in enumerate(sessions):
                session.send([text for text, _ in group[n::SESSIONS]])
            for session in sessions:
                session.wait()
        for session in sessions:
            session.send([])
            session.wait()
    return images


def _connect(server: Server) -> Any:
    return server.connect(client_flag=CLIENT.MULTI_STATEMENTS)


class _Session:
    """A session that always has a prepared transaction, if it uses XA: its COMMIT begins the next text."""

    def __init__(self, connection: Any, number: int, *, xa: bool) -> None:
        self._connection = connection
        self._ids = (f"{number}-{n}" for n in count()) if xa else None
        self._commit = "DO 0"

    def send(self, texts: list[str]) -> None:
        """Send changes, a transaction each, without waiting. None: the last one is committed."""
        statements = list[str]()
        for text in texts:
            if self._ids is None:
                statements.append(text)
                continue
            xid = next(self._ids)
            statements.append(f"{self._commit}; XA START '{xid}'; {text}; XA END '{xid}'; XA PREPARE '{xid}'")
            self._commit = f"XA COMMIT '{xid}'"
        if not texts:
            statements.append(self._commit)
            self._commit = "DO 0"
        self._connection._execute_command(COMMAND.COM_QUERY, "; ".join(statements))

    def wait(self) -> None:
        """Wait until the text has run."""
        self._connection._read_query_result()
        while self._connection._result.has_next:
            self._connection.next_result()


def main() -> None:
    """Measure on two private servers; print each round's figures and the ratios' medians."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.bench.xa", description=__doc__)
    parser.add_argument("--flavor", choices=FLAVORS, default="mysql")
    parser.add_argument("--changes", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    fast = {"sync_binlog": 0, "innodb_flush_log_at_trx_commit": 0, "max_binlog_size": 32 << 20}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidemark-bench-")))
        plain, xa = (
            _source(stack.enter_context(start(options.flavor, **fast)), folder / name, options.changes, xa=name == "xa")
            for name in ("plain", "xa")
        )
        ratios = list[tuple[float, float]]()
        for number in range(options.rounds):
            rates = plain.rates(number), xa.rates(number)
            ratios.append((rates[1][0] / rates[0][0], rates[1][1] / rates[0][1]))
            print(_line(f"round {number + 1}, images/s", *rates), flush=True)
    decoded, committed = (median(column) for column in zip(*ratios, strict=True))
    print(f"{options.flavor}: XA / plain, median: decoded {decoded:.2f}, committed {committed:.2f}")


def _source(server: Server, folder: Path, most: int, *, xa: bool) -> Source:
    server.execute(f"CREATE DATABASE {DATABASE}")
    fill(server, DATABASE, NARROW, 2 * most)
    folder.mkdir()
    pipeline = Pipeline(server, DATABASE, folder)
    run_pipeline(pipeline, "snapshot")
    server.execute("FLUSH BINARY LOGS")
    begin = position(server)
    images = write(server, most, xa=xa)
    return Source(server, pipeline, begin, position(server), images)


def _line(title: str, plain: tuple[float, float], xa: tuple[float, float]) -> str:
    parts = (
        f"{name} {b:,.0f} / {a:,.0f} = {b / a:.2f}"
        for name, a, b in zip(("decoded", "committed"), plain, xa, strict=True)
    )
    return f"{title}: XA / plain: {', '.join(parts)}"


if __name__ == "__main__":
    main()
