"""Calls of the command line. The console itself imports neither Spark nor the runner."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.base.errors import TidemarkError, printed_error

ROOT = Path(__file__).parents[2]
"""The folder in which `python -m engine` works."""


def ask(
    verb: str, spec: Path, words: Sequence[str] = (), *, stdin: str = "", timeout_s: float = 120.0
) -> dict[str, Any]:
    """The answer of `tidemark VERB SPEC … --json`. Raises TidemarkError if the command fails.

    stdin: its standard input.
    """
    command = [sys.executable, "-m", "engine", verb, str(spec), *words, "--json"]
    try:
        process = subprocess.run(
            command, input=stdin, capture_output=True, text=True, cwd=ROOT, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise TidemarkError(
            f"{verb} did not answer within {timeout_s:g} seconds.",
            detail="Nothing was sent.",
            hint="The machine or the source may be very busy. Try again.",
        ) from None
    try:
        answer: dict[str, Any] = json.loads(process.stdout)
    except ValueError:
        last = (process.stderr or process.stdout).strip().splitlines()[-1:] or [f"exit code {process.returncode}"]
        raise TidemarkError(f"{verb} failed: {last[0]}", detail="Nothing was sent.") from None
    if process.returncode and "message" in answer:
        raise printed_error(answer)
    return answer
