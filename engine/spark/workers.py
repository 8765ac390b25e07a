"""What Spark's workers must have, asked of each before the first task: Python, packages, the destination's folder.

The question is a plain Python function of the standard library alone, in a job without Arrow: it is answered where nothing of
what it asks for is there. Another minor version of Python is Spark's own to notice (`failures`): no function of ours runs there.
"""

import importlib
import json
import os
import socket
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from engine.errors import PreflightError

PACKAGES = ("numpy", "pyarrow", "pandas", "pymysql", "cryptography", "pydantic", "deltalake", "sqlglot")
"""What a task imports, ours and Spark's (pandas)."""
_LONG_ENOUGH_S = 0.1
"""So that each slot gets a task."""

Versions = dict[str, str | None]


def versions() -> Versions:
    """The packages and their versions in this process; None: it cannot be imported; empty: nobody knows."""
    found: Versions = {}
    for package in PACKAGES:
        try:
            importlib.import_module(package)
        except Exception:  # noqa: BLE001 - a package for another machine fails in its own way
            found[package] = None
            continue
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:  # it came as an archive
            found[package] = ""
    return found


def answer(marker: str) -> str:
    """What a worker says of itself, as JSON. marker: a file in the destination's folder."""
    time.sleep(_LONG_ENOUGH_S)
    sees = os.path.exists(marker) and os.access(os.path.dirname(marker), os.W_OK)  # noqa: PTH110, PTH120 - as sent
    return json.dumps(
        {"host": socket.gethostname(), "pid": os.getpid(), "python": sys.executable, "found": versions(), "sees": sees}
    )


def ask(spark: Any, tasks: int, marker: Path) -> list[dict[str, Any]]:
    """Let so many tasks answer; works in classic and Connect sessions. Raises what Spark raises."""
    from pyspark.sql.functions import col, udf

    path = str(marker)
    asked = udf(lambda _: answer(path), "string", useArrow=False)
    frame = spark.range(0, tasks, 1, tasks).select(asked(col("id")).alias("answer"))
    return [json.loads(row.answer) for row in frame.collect()]


def hosts(spark: Any, tasks: int) -> list[str]:
    """The hosts that run tasks, by their JVMs alone: also where no Python of ours runs. Raises what Spark raises."""
    frame = spark.range(0, tasks, 1, tasks).selectExpr("reflect('java.net.InetAddress', 'getLocalHost') AS host")
    return sorted({row.host.split("/")[0] for row in frame.collect()})


def require(answers: Iterable[dict[str, Any]], wanted: Versions, folder: Path, remedy: str) -> None:
    """Raises PreflightError that names each package that a host lacks, and each host without the folder. Pure.

    wanted: the versions here; those of the workers must be of the same major version. remedy: where to name another interpreter.
    """
    lacking: dict[str, set[str]] = defaultdict(set)
    pythons, blind = set(), set()
    for worker in answers:
        faults = missing(worker["found"], wanted)
        for fault in faults:
            lacking[fault].add(worker["host"])
        if faults:
            pythons.add(worker["python"])
        if not worker["sees"]:
            blind.add(worker["host"])
    if lacking:
        named = "; ".join(f"{fault} on {', '.join(sorted(hosts))}" for fault, hosts in sorted(lacking.items()))
        raise PreflightError(
            f"Spark's workers lack packages that readers need: {named}.",
            detail=f"Their Python is {', '.join(sorted(pythons))}. Nothing was read.",
            hint=f"Install them there, as requirements.txt has them: pip install {pins(wanted, lacking)}. Or {remedy}.",
        )
    if blind:
        raise PreflightError(
            f"Spark's workers on {', '.join(sorted(blind))} cannot write to the destination, {folder}.",
            detail="Readers write their files where the runner publishes them: it must be one folder under one path. "
            "Nothing was read.",
            hint="Mount it there under the same path, writable for the workers' user, or give sink.path a shared folder.",
        )


def missing(found: Versions, wanted: Versions) -> list[str]:
    """What of the wanted packages is not there, or of another major version. Pure."""
    faults = []
    for package, version in wanted.items():
        there = found.get(package)
        if there is None:
            faults.append(package)
        elif there and version and there.split(".")[0] != version.split(".")[0]:
            faults.append(f"{package} {version} (has {there})")
    return faults


def pins(wanted: Versions, faults: Iterable[str]) -> str:
    """The faults as pip takes them. Pure."""
    names: Sequence[str] = sorted({fault.split()[0] for fault in faults})
    return " ".join(f"{name}=={wanted[name]}" if wanted[name] else name for name in names)
