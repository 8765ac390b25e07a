"""Whether the process that wrote a file is alive, and how old the file is, whatever happened to the clocks since.

Four facts of Linux decide; none of them is wall-clock time:

    boot       /proc/sys/kernel/random/boot_id: the same for all processes and containers of a machine until it restarts
    namespace  /proc/self/ns/pid: within one, a pid names one process
    ticks      the process's start in ticks since boot (/proc/<pid>/stat, field 22; psutil's `create_time` is computed
               from the wall clock, and moves with it): it differs if a pid was reused
    monotonic  CLOCK_MONOTONIC, which all processes of one boot share

For a file written on another machine, or if there is no /proc, none of this is known: the caller has only the wall
clock.
"""

import getpass
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from engine.base import clock

_STATE, _PARENT, _STARTED = 0, 1, 19
"""Fields of /proc/<pid>/stat after the command's name, which may contain anything."""


def here() -> dict[str, Any]:
    """This process and this instant: boot, namespace, ticks (None if unknown) and monotonic_s."""
    process = _stat(os.getpid())
    return {
        "boot": _boot(),
        "namespace": _namespace(),
        "ticks": int(process[_STARTED]) if process else None,
        "monotonic_s": round(clock.monotonic_s(), 3),
    }


def of(pid: int) -> dict[str, Any]:
    """Like `here`, for another process of this namespace; without ticks if it is gone."""
    process = _stat(pid)
    return {**here(), "ticks": int(process[_STARTED]) if process else None}


def age_s(written: Mapping[str, Any]) -> float | None:
    """Seconds since `here` returned `written`, without the wall clock.

    None if that was on another machine or another boot.
    """
    boot = _boot()
    if boot is None or written.get("boot") != boot or not isinstance(written.get("monotonic_s"), int | float):
        return None
    return float(clock.monotonic_s() - written["monotonic_s"])


def lives(pid: int, written: Mapping[str, Any]) -> bool | None:
    """Whether the process `pid`, for which `here` returned `written`, is alive.

    None if that cannot be seen from here.
    """
    if _boot() is None or written.get("boot") != _boot() or written.get("namespace") != _namespace():
        return None
    if written.get("ticks") is None:
        return None
    process = _stat(pid)
    return process is not None and process[_STATE] not in ("Z", "X") and int(process[_STARTED]) == written["ticks"]


def is_gone(pid: int) -> bool:
    """Whether the process `pid` of this namespace has ended."""
    process = _stat(pid)
    return process is None or process[_STATE] in ("Z", "X")


def is_stopped(pid: int) -> bool:
    """Whether a signal such as SIGSTOP has stopped the process `pid` of this namespace."""
    process = _stat(pid)
    return process is not None and process[_STATE] == "T"


def children(name: str) -> list[int]:
    """The processes that this one has started and whose command has this name, such as `java`."""
    pids = []
    for folder in Path("/proc").glob("[0-9]*"):
        process = _stat(pid := int(folder.name))
        if process is not None and process[_PARENT] == str(os.getpid()) and process[_STATE] not in ("Z", "X"):
            with suppress(OSError):
                if (folder / "comm").read_text(encoding="utf-8", errors="replace").strip() == name:
                    pids.append(pid)
    return pids


def _boot() -> str | None:
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return None


def _namespace() -> str | None:
    with suppress(OSError):
        return str(Path("/proc/self/ns/pid").readlink())
    return None


def _stat(pid: int) -> list[str] | None:
    with suppress(OSError, ValueError):
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return text[text.rindex(")") + 1 :].split()
    return None


def this_user() -> str:
    """The name of this process's user."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return f"uid {os.getuid()}"
