"""Where a pipeline's state is, if it is not the pipeline's directory itself.

<directory>/remote-state.json    the URL; the directory is then a copy
<directory>/runner/              the copy on which a runner of this host works
"""

import json
from contextlib import suppress

from engine.base.durable import make_folders, write_atomically
from engine.base.errors import SpecError
from engine.pipeline.directory import Directory
from engine.store.folder import Folder
from engine.store.folder_at import folder_at

_MARK = "remote-state.json"


def note_state(directory: Directory, url: str | None) -> None:
    """Note where the state is, by the pipeline's spec. url: None if it is the directory itself."""
    mark = directory.root / _MARK
    with suppress(SpecError):
        if url == state_url(directory):
            return
    if url is None:
        mark.unlink(missing_ok=True)
        return
    make_folders(directory.root)
    write_atomically(mark, json.dumps({"url": url}))


def state_url(directory: Directory) -> str | None:
    """Where the state is; None if it is the directory itself. Raises SpecError if the mark is damaged."""
    mark = directory.root / _MARK
    try:
        return str(json.loads(mark.read_text(encoding="utf-8"))["url"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise SpecError(
            f"{mark} is damaged: {error!r}.",
            detail="It says where the pipeline's state is. Nothing was changed.",
            hint="Delete it. The next command with the spec, or with the state's URL, writes it again.",
        ) from error


def remote_state(directory: Directory, *, quick: bool = False) -> Folder | None:
    """The folder of the state; None if it is the directory itself. quick: whether requests give up soon."""
    url = state_url(directory)
    return None if url is None else folder_at(url, quick=quick)


def runner_copy(directory: Directory) -> Directory:
    """The copy on which a runner of this host works. What others of this host read is another one."""
    return Directory(directory.root / "runner")
