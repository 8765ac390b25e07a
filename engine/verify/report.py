"""A report of a verification that an auditor can keep: JSON, or a page to print, with a checksum of its content.

The checksum is the SHA-256 of the report as canonical JSON (keys sorted, no spaces, UTF-8) without the field `sha256`.
The page contains that JSON too, so that both can be checked: `check_report`.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from html import escape, unescape
from pathlib import Path
from typing import Any

from engine import __version__
from engine.base import clock
from engine.base.durable import write_atomically
from engine.base.errors import SpecError
from engine.spec.settings import Spec
from engine.verify.verdicts import TableResult, worst

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Verification of {pipeline}</title>
<style>
body {{ font: 11pt/1.4 system-ui, sans-serif; margin: 2rem; color: #111; }}
table {{ border-collapse: collapse; width: 100%; margin: 1rem 0; }}
th, td {{ border: 1px solid #bbb; padding: .25rem .5rem; text-align: left; vertical-align: top; }}
th {{ background: #eee; }} code {{ overflow-wrap: anywhere; }} .bad {{ font-weight: bold; }}
@media print {{ body {{ margin: 0; }} tr {{ break-inside: avoid; }} }}
</style></head><body>
<h1>Verification of {pipeline}: {verdict}</h1>
{facts}
{tables}
{differences}
<p>SHA-256 of the report's JSON: <code>{sha256}</code></p>
<script type="application/json" id="report">{embedded}</script>
</body></html>
"""
_EMBEDDED = re.compile(r'<script type="application/json" id="report">(.*?)</script>', re.DOTALL)


def report_of(spec: Spec, results: Sequence[TableResult], started: str) -> dict[str, Any]:
    """The report of one verification. started: UTC text."""
    body = {
        "report": "Tidemark verification",
        "version": __version__,
        "pipeline": spec.name,
        "source": f"{spec.source.host}:{spec.source.port}",
        "destination": str(spec.sink.path),
        "started": started,
        "ended": clock.utc_text(),
        "verdict": worst(results),
        "tables": [_table(one) for one in results],
        "left_out": [
            {"table": one.table, "why": one.why} for one in results if one.verdict in ("unverifiable", "lagging")
        ],
    }
    return {**body, "sha256": checksum(body)}


def _table(result: TableResult) -> dict[str, Any]:
    fields = result.as_dict(parts=True)
    return {**fields, "parts": [asdict(part) for part in result.parts]}


def checksum(report: dict[str, Any]) -> str:
    """The checksum of a report's content."""
    body = {name: value for name, value in report.items() if name != "sha256"}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def write_report(file: Path, report: dict[str, Any]) -> None:
    """Write a report: a page if the file's name ends with .html, else JSON.

    Raises SpecError if it cannot be written.
    """
    text = page(report) if file.suffix == ".html" else json.dumps(report, ensure_ascii=False, indent=1, default=str)
    try:
        write_atomically(file, text)
    except OSError as error:
        raise SpecError(f"The report {file} cannot be written: {error.strerror}.") from error


def check_report(text: str) -> bool:
    """Whether a report, JSON or page, has the content that its checksum says."""
    embedded = _EMBEDDED.search(text)
    report = json.loads(unescape(embedded[1]) if embedded else text)
    return bool(report.get("sha256") == checksum(report))


def page(report: dict[str, Any]) -> str:
    """A report as a page to print."""
    facts = [(name, report[name]) for name in ("source", "destination", "started", "ended")]
    columns = ("table", "verdict", "level", "scope", "position", "version", "rows", "differences_total", "at", "why")
    heads = ("Table", "Verdict", "Level", "Part", "Position", "Version", "Rows", "Differences", "Compared", "Why")
    tables = _grid(heads, [[table[name] for name in columns] for table in report["tables"]])
    rows = [
        [table["table"], one["kind"], ", ".join(one["key"]), ", ".join(one["columns"]), one["cause"]]
        for table in report["tables"]
        for one in table["differences"]
    ]
    named = ("Table", "Kind", "Key", "Columns", "Likely cause")
    differences = _grid(named, rows) if rows else "<p>No row differs in what was compared.</p>"
    embedded = escape(json.dumps(report, ensure_ascii=False, default=str), quote=False)
    return _PAGE.format(
        pipeline=escape(report["pipeline"]),
        verdict=report["verdict"],
        facts=_grid(("", ""), [[name.capitalize(), value] for name, value in facts]),
        tables=tables,
        differences=differences,
        sha256=report["sha256"],
        embedded=embedded,
    )


def _grid(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape('' if value is None else str(value))}</td>" for value in row) + "</tr>"
        for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"
