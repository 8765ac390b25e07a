"""Why a disk or a store takes no files: in words, and which file a disk did not take, on which disk it is."""

import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from engine.base.errors import is_forbidden, is_read_only
from engine.base.wording import size
from engine.base.writable import named_paths
from engine.base.write_causes import DiskFault, write_cause
from engine.pipeline.state_words import STATES

_READ_ONLY = re.compile(r"Read-only file system")
_FORBIDDEN = re.compile(r"(?i)Permission denied|Operation not permitted|\berrno (?:1|13)\b")


@dataclass(frozen=True)
class Fault:
    """Why a disk or a store takes no files."""

    state: str
    """In a few words, such as `disk full`."""
    message: str
    """The beginning of a sentence."""
    remedy: str
    """With `{where}`."""
    disk_fault: DiskFault = "full"
    """What is wrong with the disk, if it is one."""


FULL = Fault(STATES["full"], "A disk is full", "Free space on the disk of {where}, or raise the quota.")
READ_ONLY = Fault(
    STATES["read_only"],
    "A file system is read-only",
    "Find out why, and mount it read-write again: {where}.",
    "read_only",
)
FORBIDDEN = Fault(
    STATES["forbidden"], "A folder may not be written", "Let the runner's user write to {where}.", "forbidden"
)
STORE_AWAY = Fault(
    "store away",
    "The store of the destination does not answer",
    "Nobody must act, unless it lasts: then make sure that the store runs, and that this host reaches it.",
)
STORE_REFUSES = Fault(
    "credentials refused",
    "The store of the destination refuses the credentials",
    "Renew the credentials, or give them the permissions of docs/s3.md or docs/azure.md. Those of a role "
    "are renewed while the run waits; after new ones in the environment, stop the run and start it again.",
)


def fault_of(error: BaseException) -> Fault:
    """Why a disk or a store took no file. A worker's error arrives as text, without its causes."""
    if (cause := write_cause(error)) != "disk":
        return STORE_REFUSES if cause == "store_refused" else STORE_AWAY
    if is_read_only(error) or _READ_ONLY.search(str(error)):
        return READ_ONLY
    return FORBIDDEN if is_forbidden(error) or _FORBIDDEN.search(str(error)) else FULL


def file_of(error: BaseException) -> Path | None:
    """The file or folder that an error, or one of its causes, names; None if none does."""
    return next(named_paths(error), None)


def folder_of(path: Path) -> Path:
    """The nearest folder of a path that is there: a file that could not be written is not."""
    return next((place for place in (path, *path.parents) if os.path.isdir(place)), path)  # noqa: PTH112 - may be denied


def mount_of(path: Path) -> Path | None:
    """Where the disk of a file is mounted; None if that cannot be found."""
    with suppress(OSError):
        place = path.absolute()
        while not place.is_dir():
            place = place.parent
        while not os.path.ismount(place):
            place = place.parent
        return place
    return None


def room_on(mount: Path) -> str:
    """`/data has 12 KB of 64 MB free`; empty if that cannot be found."""
    with suppress(OSError):
        usage = shutil.disk_usage(mount)
        return f"{mount} has {size(usage.free)} of {size(usage.total)} free"
    return ""


def scratch_folders(master: str, conf: Mapping[str, object]) -> list[Path]:
    """Where Spark and its readers on this host keep temporary files; none on a cluster, whose disks are elsewhere."""
    if not master.startswith("local"):
        return []
    named = os.environ.get("SPARK_LOCAL_DIRS") or str(conf.get("spark.local.dir") or "")
    folders = [*filter(None, map(str.strip, named.split(","))), tempfile.gettempdir()]
    return list(map(Path, dict.fromkeys(folders)))
