"""The figures of a run as the text that `make bench` prints."""

from tests.tools.bench.measure import Figures
from tests.tools.bench.schemas import Schema
from tests.tools.bench.workloads import WORKLOADS, Workload

_LABELS = {
    "undecoded": "dump, undecoded",
    "decoding": "decoding alone, one process",
    "one_slot": "pipeline to committed files, one slot",
    "committed": "pipeline to committed files, two slots",
    "merged": "pipeline to merged mirror, two slots",
    "mysql_replication": "mysql-replication",
}


def report(flavor: str, schema: Schema, figures: dict[str, Figures]) -> str:
    """The tables of a schema."""
    lines = [*_rows(flavor, schema, figures["rows"])]
    for workload in WORKLOADS:
        if workload.name in figures:
            lines += _log(flavor, schema, workload, figures[workload.name])
    return "\n".join(lines)


def _rows(flavor: str, schema: Schema, rows: Figures) -> list[str]:
    drained, python, pipeline = (float(rows[name]) for name in ("drained", "pymysql", "pipeline"))
    lines = [f"\n{rows['rows']:,} {schema.name} rows of {schema.columns} columns, {flavor}, two slots; rows a second"]
    for label, speed in (
        ("server, undecoded", drained),
        ("PyMySQL's cursor", python),
        ("pipeline to mirror", pipeline),
    ):
        lines.append(f"  {label:<28}{speed:>14,.0f}   {speed / drained:.3f} of the drain")
    lines.append(f"  {'pipeline / PyMySQL':<28}{pipeline / python:>14.1f}")
    return [*lines, _memory(rows)]


def _log(flavor: str, schema: Schema, workload: Workload, log: Figures) -> list[str]:
    python, undecoded = float(log["mysql_replication"]), float(log["undecoded"])
    title = f"{log['images']:,} row images of {schema.columns} columns in {workload.label}, {flavor}"
    lines = [f"\n{title}, {float(log['bytes']) / 2**20:.0f} MiB of binlog; images a second"]
    for name, label in _LABELS.items():
        speed = float(log[name])
        ratio = f"{speed / python:>8.1f} × mysql-replication" if python else ""
        lines.append(f"  {label:<38}{speed:>14,.0f}   {speed / undecoded:.3f} of the dump{ratio}")
    if "mysql_replication_failed" in log:
        lines.append(f"  mysql-replication cannot decode this log: {log['mysql_replication_failed']}")
    if log["mysql_replication_wrong"]:
        lines.append(f"  mysql-replication gives other values than the server for: {log['mysql_replication_wrong']}")
    return [*lines, _memory(log)]


def _memory(figures: Figures) -> str:
    runner, reader = (float(figures[name]) / 2**20 for name in ("runner_bytes", "reader_bytes"))
    return f"  peak memory: runner {runner:.0f} MiB, reader {reader:.0f} MiB"
