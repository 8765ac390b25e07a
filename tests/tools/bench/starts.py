"""`python -m tests.tools.bench.starts`: how long commands and runs take to start, in seconds.

Each round starts every tree once, in turn, so that noise of the machine meets all of them: compare the columns. A first
run copies one small table; then a run that has nothing to do ends when it has caught up. `--tree` names checkouts of
other versions; each has a cache of its own, so the first round makes what later ones use.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from engine.base import clock
from tests.live.support.pipeline import ROOT, Pipeline
from tests.servers import FLAVORS, Server, start

DATABASE = "starts"
_ROWS = 1000
Figures = dict[str, float]


class Tree:
    """A checkout, with a cache and pipelines of its own."""

    def __init__(self, root: Path, folder: Path, environment: Mapping[str, str], *, archive: bool) -> None:
        self.root = root
        self._folder = folder
        self._environment = {**environment, "XDG_CACHE_HOME": str(folder / "cache")}
        self._environment["TIDEMARK_CLASS_ARCHIVE"] = "" if archive else "off"
        self._environment.pop("JDK_JAVA_OPTIONS", None)  # the archive of the tests
        self._number = 0

    def measure(self, server: Server) -> Figures:
        """Seconds of one round, by figure."""
        self._number += 1
        (home := self._folder / str(self._number)).mkdir(parents=True)
        pipeline = Pipeline(server, DATABASE, home)
        figures = {"--help": self._seconds(["--help"]), "status, no run yet": self._status(pipeline)}
        first = self._run(pipeline, "snapshot")
        figures["first run: to its first chunk"] = first["chunk"]
        figures["first run"] = first["end"]
        figures["status"] = self._status(pipeline)
        empty = self._run(pipeline, "caught-up")
        figures |= {f"empty run: to {name}": seconds for name, seconds in empty.items() if name != "end"}
        figures["empty run"] = empty["end"]
        return figures

    def _status(self, pipeline: Pipeline) -> float:
        return self._seconds(["status", str(pipeline.spec)])

    def _seconds(self, arguments: Sequence[str]) -> float:
        began_s = time.monotonic()
        subprocess.run(
            [sys.executable, "-m", "engine", *arguments],
            cwd=self.root,
            env=self._environment | {"TIDEMARK_TEST_PASSWORD": os.environ.get("TIDEMARK_TEST_PASSWORD", "")},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        return time.monotonic() - began_s

    def _run(self, pipeline: Pipeline, until: str) -> Figures:
        before = len(pipeline.events())
        began = clock.utc_now()
        began_s = time.monotonic()
        environment = {**pipeline.environment, **self._environment}
        command = [sys.executable, "-m", "engine", "run", str(pipeline.spec), "--until", until]
        done = subprocess.run(command, cwd=self.root, env=environment, capture_output=True, text=True, check=False)
        assert not done.returncode, done.stdout[-2000:] + done.stderr[-2000:]
        figures = {"end": time.monotonic() - began_s}
        events = pipeline.events()[before:]
        for event in events:
            if event["event"] in ("run.started", "run.connected", "run.ended"):
                figures[event["event"]] = (clock.parse_utc(event["ts"]) - began).total_seconds()
        chunks = [clock.parse_utc(event["started"]) for event in events if event["event"] == "chunk.finished"]
        if chunks:
            figures["chunk"] = (min(chunks) - began).total_seconds()
        startup = json.loads((pipeline.home / "runner.json").read_text())["startup"]
        for step in startup:
            figures[f"{step['step']} (step)"] = step["seconds"]
        return figures


def main() -> None:
    """Measure, and print a table: the median and the least of all rounds."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.bench.starts", description=__doc__)
    parser.add_argument("--flavor", choices=FLAVORS, default="mysql")
    parser.add_argument("--tree", type=Path, action="append", help="a checkout; repeatable; by default, this one")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warm", type=int, default=1, help="rounds before those that count")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds after a round that does not count")
    parser.add_argument("--no-archive", action="store_true", help="without the archive of Spark's classes")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder, start(options.flavor) as server:
        server.execute(f"CREATE DATABASE {DATABASE}")
        server.execute(f"CREATE TABLE {DATABASE}.t (id INT PRIMARY KEY, v VARCHAR(40))")
        values = ",".join(f"({n}, 'row {n}')" for n in range(_ROWS))
        server.execute(f"INSERT INTO {DATABASE}.t VALUES {values}")
        trees = [
            Tree(root.resolve(), Path(folder) / str(n), os.environ, archive=not options.no_archive)
            for n, root in enumerate(options.tree or [ROOT])
        ]
        results: list[list[Figures]] = [[] for _ in trees]
        for number in range(options.warm + options.rounds):
            for tree, rounds in zip(trees, results, strict=True):
                figures = tree.measure(server)
                if number >= options.warm:
                    rounds.append(figures)
                else:
                    time.sleep(options.pause)
    _print([str(tree.root) for tree in trees], results)


def _print(names: Sequence[str], results: Sequence[Sequence[Figures]]) -> None:
    for name in names:
        print(name)
    for figure in dict.fromkeys(key for rounds in results for one in rounds for key in one):
        cells = []
        for rounds in results:
            values = [one[figure] for one in rounds if figure in one]
            cells.append(f"{statistics.median(values):6.2f} ({min(values):5.2f})" if values else " " * 14)
        print(f"{figure:40}", *cells)


if __name__ == "__main__":
    main()
