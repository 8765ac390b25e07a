"""Processes that see some folders empty, as on another host: each is in a mount namespace of its own."""

import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

_HIDING = 'for folder in {}; do mount -t tmpfs none "$folder" || exit 9; done; exec "$@"'


def apart_from(folders: Sequence[Path]) -> list[str]:
    """What begins a command that shall see these folders empty; nothing if there are none."""
    if not folders:
        return []
    return ["unshare", "--mount", "sh", "-c", _HIDING.format(shlex.join(map(str, folders))), "sh"]


def can_hide() -> bool:
    """Whether folders can be hidden from a process here: it takes a mount namespace."""
    return subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0
