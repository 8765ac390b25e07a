"""Checks each of Spark's workers before the first task: Python, packages, the destination's folder.

The check is a plain Python function that uses only the standard library, in a job without Arrow, so it runs even where
everything is missing. Spark itself detects another minor version of Python (`failures`): no function of ours runs
there.
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

from engine.base.errors import PreflightError

PACKAGES = ("numpy", "pyarrow", "pandas", "pymysql", "cryptography", "pydantic", "deltalake", "sqlglot", "pyroaring")
"""The packages that a task imports, ours and Spark's (pandas)."""
_LONG_ENOUGH_S = 0.1
"""Long enough that each slot gets a task."""

PackageVersions = dict[str, str | None]


def versions() -> PackageVersions:
    """The packages and their versions in this process. None: cannot be imported; empty: unknown version."""
    package_versions: PackageVersions = {}
    for package in PACKAGES:
        try:
            importlib.import_module(package)
        except Exception:  # noqa: BLE001 - a package for another machine can fail in any way
            package_versions[package] = None
            continue
        try:
            package_versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:  # it was shipped as an archive
            package_versions[package] = ""
    return package_versions


def answer(marker: str) -> str:
    """A worker's description of itself, as JSON. marker: a file in the destination's folder."""
    time.sleep(_LONG_ENOUGH_S)
    sees = os.path.exists(marker) and os.access(os.path.dirname(marker), os.W_OK)  # noqa: PTH110, PTH120 - as sent
    return json.dumps(
        {"host": socket.gethostname(), "pid": os.getpid(), "python": sys.executable, "found": versions(), "sees": sees}
    )


def ask(spark: Any, tasks: int, marker: Path) -> list[dict[str, Any]]:
    """Run this many tasks that each answer; works in classic and Connect sessions. Raises what Spark raises."""
    from pyspark.sql.functions import col, udf

    path = str(marker)
    answer_udf = udf(lambda _: answer(path), "string", useArrow=False)
    frame = spark.range(0, tasks, 1, tasks).select(answer_udf(col("id")).alias("answer"))
    return [json.loads(row.answer) for row in frame.collect()]


def hosts(spark: Any, tasks: int) -> list[str]:
    """The hosts that run tasks, found by their JVMs: works even where our Python does not run.

    Raises what Spark raises.
    """
    frame = spark.range(0, tasks, 1, tasks).selectExpr("reflect('java.net.InetAddress', 'getLocalHost') AS host")
    return sorted({row.host.split("/")[0] for row in frame.collect()})


def require(answers: Iterable[dict[str, Any]], own_versions: PackageVersions, folder: Path | None, remedy: str) -> None:
    """Raises PreflightError with each package that a host lacks, and each host without the folder. Pure.

    own_versions: this process's versions; the workers' must have the same major version. remedy: how to set another
    interpreter.
    """
    faulty_hosts: dict[str, set[str]] = defaultdict(set)
    pythons, blind = set(), set()
    for worker in answers:
        faults = missing(worker["found"], own_versions)
        for fault in faults:
            faulty_hosts[fault].add(worker["host"])
        if faults:
            pythons.add(worker["python"])
        if not worker["sees"]:
            blind.add(worker["host"])
    if faulty_hosts:
        named = "; ".join(f"{fault} on {', '.join(sorted(hosts))}" for fault, hosts in sorted(faulty_hosts.items()))
        raise PreflightError(
            f"Spark's workers lack packages that readers need: {named}.",
            detail=f"Their Python is {', '.join(sorted(pythons))}. Nothing was read.",
            hint="Install them there, in the versions of requirements.txt: "
            f"pip install {pins(own_versions, faulty_hosts)}. Or {remedy}.",
        )
    if blind and folder is not None:
        raise PreflightError(
            f"Spark's workers on {', '.join(sorted(blind))} cannot write to the destination, {folder}.",
            detail="Readers write their files where the runner publishes them, so it must be the same folder under the "
            "same path. Nothing was read.",
            hint="Mount it there under the same path, writable for the workers' user, "
            "or set sink.path to a shared folder.",
        )


def missing(worker_versions: PackageVersions, own_versions: PackageVersions) -> list[str]:
    """The wanted packages that are missing, or have another major version. Pure."""
    faults = []
    for package, version in own_versions.items():
        there = worker_versions.get(package)
        if there is None:
            faults.append(package)
        elif there and version and there.split(".")[0] != version.split(".")[0]:
            faults.append(f"{package} {version} (has {there})")
    return faults


def pins(own_versions: PackageVersions, faults: Iterable[str]) -> str:
    """The faults as requirements for pip. Pure."""
    names: Sequence[str] = sorted({fault.split()[0] for fault in faults})
    return " ".join(f"{name}=={own_versions[name]}" if own_versions[name] else name for name in names)
