"""A pipeline whose spec cannot be read now: the settings of its newest run stand in for it.

A typo in the spec must not hide what a runner does that began before it, or keep anybody from stopping it.
"""

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from engine.base.errors import SpecError
from engine.cli.command import opened
from engine.pipeline.directory import Directory, directory_of
from engine.pipeline.remote_state.operator_copy import follow, refresh
from engine.pipeline.remote_state.place import state_url
from engine.spec.settings import Spec
from engine.status.run_spec import spec_of_newest_run

_NAME = re.compile(r"^\s*name\s*=\s*[\"']?([A-Za-z0-9][A-Za-z0-9_-]*)", re.MULTILINE)
_SECTION = re.compile(r"^\s*\[", re.MULTILINE)


@dataclass(frozen=True)
class KnownPipeline:
    """A pipeline as its spec has it, or else its newest run."""

    spec: Spec
    directory: Directory
    fault: SpecError | None = None
    """Why the spec cannot be read; None if it can."""

    @property
    def notice(self) -> str:
        """That the spec cannot be read, and why; empty if it can."""
        if self.fault is None:
            return ""
        return f"The spec cannot be read now, so these are the settings of the newest run. {self.fault.message}"


def known_pipeline(spec_file: Path) -> KnownPipeline:
    """The pipeline of a spec file. Raises SpecError if neither its spec nor a run says what it is."""
    try:
        return KnownPipeline(*opened(spec_file))
    except SpecError as fault:
        for directory in _directories(spec_file):
            if (spec := spec_of_newest_run(directory)) is not None:
                refresh(directory)
                follow(directory, state_url(directory))
                return KnownPipeline(spec, directory, fault)
        raise


def _directories(spec_file: Path) -> list[Directory]:
    """Where the pipeline may be: by the name in the file, as far as that can be seen, or by the file's name."""
    text = ""
    with suppress(OSError):
        text = spec_file.read_text(encoding="utf-8", errors="replace")
    section = _SECTION.search(text)
    names = [*_NAME.findall(text[: section.start()] if section else text), spec_file.stem]
    return [directory_of(spec_file, name) for name in dict.fromkeys(names)]
