"""A zip for support: a pipeline's configuration, state and history.

It contains no secrets, and no row values unless requested.

Nothing in it leaves this machine by itself. `engine.base.redaction` removes secrets. Row values occur in chunk bounds
and in lists of keys.
"""

import json
import os
import platform
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from engine import __version__
from engine.base import clock
from engine.base.errors import TidemarkError
from engine.base.redaction import Scrubber
from engine.base.tail import tail
from engine.capture.projection.projection_rules import as_read
from engine.journal.parts import newest_lines, runs_in
from engine.pipeline import formats
from engine.pipeline.directory import Directory
from engine.source.endpoint import at_source, endpoint_of
from engine.source.preflight import run_preflight
from engine.spec import settings
from engine.spec.settings import Spec
from engine.status.status import status

RUNS = 5
"""The number of newest journals in it."""
_JOURNAL_BYTES, _LOG_BYTES = 4 << 20, 1 << 20
_PACKAGES = ("pyspark", "deltalake", "pyarrow", "numpy", "duckdb", "pymysql", "streamlit", "pydantic", "sqlglot")
_VALUES = frozenset({"lower", "upper", "min", "max", "keys", "range", "missing"})
"""Fields of journals and commands that hold row values; in `chunk.planned` and `table.planned`, also `chunks`."""

README = """\
Diagnostics of the pipeline {name}, made {at} by Tidemark {version}.

What was removed: passwords, tokens, salts, webhooks and whatever looks like one ({secrets} places){values}.
What is in it: names of hosts, users, tables and columns, statements that altered tables, messages of errors.
Look through it before you give it away.
"""


@dataclass(frozen=True)
class Bundle:
    """A written zip."""

    file: Path
    parts: tuple[tuple[str, int], ...]
    """Names and unpacked sizes in bytes."""
    removed: int
    """The number of secrets replaced."""

    def as_dict(self) -> dict[str, Any]:
        return {"file": str(self.file), "parts": [list(part) for part in self.parts], "removed": self.removed}


def write_bundle(spec: Spec, spec_file: Path, directory: Directory, out: Path, *, with_values: bool = False) -> Bundle:
    """Write the zip to `out`.

    with_values: include chunk bounds and keys. Raises TidemarkError when it cannot be written.
    """
    settings.learn_secrets(spec)
    scrubber = Scrubber()
    parts = []
    for name, make in _parts(spec, spec_file, directory, scrubber, with_values):
        try:
            parts.append((name, scrubber.clean(make())))
        except (TidemarkError, OSError, ValueError, KeyError) as error:  # the part then contains the error
            parts.append((name, scrubber.clean(f"This part could not be made: {type(error).__name__}: {error}\n")))
    facts = {"name": spec.name, "at": clock.utc_text(), "version": __version__, "secrets": scrubber.removed}
    values = "" if with_values else ", and values of rows (bounds of chunks, lists of keys)"
    parts.insert(0, ("README.txt", README.format(**facts, values=values)))
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
            for name, text in parts:
                file.writestr(name, text)
    except OSError as error:
        raise TidemarkError(
            f"The bundle {out} cannot be written: {error.strerror}.", hint="Choose another --out."
        ) from None
    return Bundle(out, tuple((name, len(text.encode())) for name, text in parts), scrubber.removed)


def _parts(
    spec: Spec, spec_file: Path, directory: Directory, scrubber: Scrubber, with_values: bool
) -> Iterator[tuple[str, Callable[[], str]]]:
    yield "versions.json", _versions
    yield "spec.toml", lambda: scrubber.toml(spec_file.read_text(encoding="utf-8"))
    now = partial(status, directory, spec.name, spec.verify, spec.sink, copies=spec.source.copies)
    yield "status.json", lambda: _json(now().to_json())
    yield "check.json", lambda: _json(_check(spec))
    for path in (directory.runner, directory.controls, directory.alerts):
        if path.exists():
            yield path.name, partial(path.read_text, encoding="utf-8")
    for run in runs_in(directory.journals)[-RUNS:]:
        yield f"journal/{run}.jsonl", partial(_journal, directory, run, with_values)
    if directory.log.exists():
        yield "runner.log", partial(tail, directory.log, _LOG_BYTES)
    for path in sorted((directory.inbox / "refused").glob("*.json"))[-50:]:
        yield f"refused/{path.name}", partial(_command, path, with_values)


def _versions() -> str:
    packages = {}
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            packages[name] = version(name)
    system = {"python": platform.python_version(), "system": platform.platform(), "cores": os.cpu_count()}
    return _json({formats.FIELD: formats.VERSIONS["bundle"], "tidemark": __version__, **system, "packages": packages})


def _check(spec: Spec) -> dict[str, Any]:
    """The result of `check` now."""
    spec = at_source(spec)
    preflight = run_preflight(endpoint_of(spec.source), spec.source, spec.first_server_id(), partial(as_read, spec))
    return {
        "passed": preflight.passed,
        "server": vars(preflight.server),
        "checks": [c.as_dict() for c in preflight.checks],
    }


def _journal(directory: Directory, run: str, with_values: bool) -> str:
    lines = newest_lines(directory.journals, _JOURNAL_BYTES, run)
    return "\n".join(lines if with_values else map(_without_values, lines)) + "\n"


def _without_values(line: str) -> str:
    try:
        event = json.loads(line)
    except ValueError:
        return "(a line that is not JSON)"
    if event.get("event") in ("table.planned", "chunk.planned"):
        event["chunks"] = f"({len(event['chunks'] or [])} chunks)"
    return json.dumps(_bare(event), ensure_ascii=False)


def _bare(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: "(removed)" if k in _VALUES and v is not None else _bare(v) for k, v in value.items()}
    return [_bare(one) for one in value] if isinstance(value, list) else value


def _command(path: Path, with_values: bool) -> str:
    text = path.read_text(encoding="utf-8")
    if with_values:
        return text
    try:
        return _json(_bare(json.loads(text)))
    except ValueError:
        return "(a file that is not JSON)\n"


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, default=str) + "\n"
