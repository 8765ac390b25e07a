"""A pipeline named by the URL of its state instead of a spec file: `tidemark status s3://bucket/pipelines/shop`."""

import re
from pathlib import Path

from engine.base.errors import SpecError
from engine.pipeline.directory import Directory
from engine.pipeline.remote_state.host_pipelines import usual_folder
from engine.pipeline.remote_state.operator_copy import refresh
from engine.pipeline.remote_state.place import note_state, state_url
from engine.store.providers import PROVIDERS

_URL = re.compile(rf"({'|'.join(PROVIDERS)}):/+(.*)")
"""A path has one slash of the two of `s3://`."""


def local_spec(argument: Path) -> Path:
    """The spec file that an argument names. For a URL, its copy in this host's home, made or refreshed now.

    Raises SpecError if there is no pipeline at the URL, or another one of its name in the home; TransientError.
    """
    parts = _URL.fullmatch(argument.as_posix())
    if parts is None:
        return argument
    url = f"{parts[1]}://{parts[2].strip('/')}"
    directory = Directory(usual_folder() / url.rpartition("/")[2])
    other = state_url(directory)
    if other not in (None, url) or (other is None and directory.spec.exists()):
        raise SpecError(
            f"The home of this host has another pipeline in {directory.root}.",
            detail=f"The copy of {url} would be there too. Nothing was changed.",
            hint="Set TIDEMARK_HOME to another folder, or move that pipeline away.",
        )
    note_state(directory, url)
    refresh(directory)
    if not directory.spec.exists():
        raise SpecError(
            f"{url} has no pipeline: there is no pipeline.toml.",
            detail="Nothing was started.",
            hint=f'Run its spec once, with state = "{url}" in it: tidemark run SPEC',
        )
    return directory.spec
