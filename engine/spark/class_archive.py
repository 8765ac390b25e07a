"""An archive of Spark's classes, kept per user: with it, a JVM is ready in about half the processor time.

Java calls this class data sharing. One JVM writes the classes that it has loaded and verified to a file, and later JVMs
of the same Java with the same jars map that file. The first run on a host has it made in the background, by a process
of the lowest priority (`make_in_background`); an image of a container makes it when it is built (`python -m
engine.spark.class_archive`).

It is never a reason for a failure: it saves time, and nothing else. Its name has a digest of Java, Spark's jars and the
options, and its size, so that a new version has an archive of its own and a truncated one, on which a JVM would crash,
is not used. It is written under another name and renamed. The JVM compares its own build, the jars' times and a
checksum, and reads the jars where they differ. Only a file that no other user can write is mapped: it contains code.

$XDG_CACHE_HOME/tidemark/spark-classes/DIGEST-SIZE.jsa    by default in ~/.cache
`TIDEMARK_CLASS_ARCHIVE=off` switches both its use and its making off.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

VARIABLE = "TIDEMARK_CLASS_ARCHIVE"
BASE_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""The options of the JVM that makes it, as of a run."""
_QUIET = "-Xlog:cds*=off -Xlog:class+path=off"
"""Java's warnings about an archive that it does not use would go to standard output."""
_IDLE = "--idle"
_OTHERS_WRITE = 0o022
_KEPT = 2
"""Archives that stay: another checkout or another Java may use one in turn."""
_LEAST_BYTES = 3 << 30
"""Memory that must be available: a second JVM must not take that of the run."""
_MAKE_S = 900.0


def archive_options(home: Path) -> str:
    """Java's options that use the archive for Spark in `home`; empty if there is none, or none is wanted."""
    with suppress(OSError):
        archive = _archive(home) if _is_wanted() else None
        if archive is not None:
            return f"-XX:SharedArchiveFile={archive} -XX:+VerifySharedSpaces {_QUIET}"
    return ""


def forget_archive(home: Path) -> None:
    """Delete the archive for Spark in `home`: a JVM that used it has ended before it answered."""
    with suppress(OSError):
        archive = _archive(home)
        if archive is not None:
            archive.unlink()


def make_in_background(home: Path) -> None:
    """Start a process that makes the archive, unless there is one, or too little memory for another JVM."""
    with suppress(OSError, psutil.Error):
        if not _is_wanted() or _archive(home) is not None or _available_bytes() < _LEAST_BYTES:
            return
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "AWS_"))}
        subprocess.Popen(
            [sys.executable, "-m", __name__, _IDLE],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=Path(__file__).resolve().parents[2],
            env=environment,
            start_new_session=True,  # it outlives the run
        )


def make(home: Path) -> Path | None:
    """Make the archive, unless it exists or another process is making it. Returns it, or None.

    Raises OSError, CalledProcessError and TimeoutExpired.
    """
    folder = _folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _alone(folder / "lock") as alone:
        if not alone or _archive(home) is not None:
            return _archive(home)
        new = folder / f"{_digest(home)}.new"
        new.unlink(missing_ok=True)
        try:
            subprocess.run(
                [sys.executable, "-m", "engine.spark.class_archive_session", str(new)],
                cwd=Path(__file__).resolve().parents[2],
                stdin=subprocess.DEVNULL,
                check=True,
                timeout=_MAKE_S,
            )
            new.chmod(0o600)
            archive = folder / f"{_digest(home)}-{new.stat().st_size}.jsa"
            new.rename(archive)
        finally:
            new.unlink(missing_ok=True)
        for old in sorted(folder.glob("*.jsa"), key=_changed_ns)[:-_KEPT]:
            old.unlink(missing_ok=True)
        return archive


def _is_wanted() -> bool:
    return os.environ.get(VARIABLE, "").lower() not in ("off", "0", "no", "false")


def _folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "tidemark" / "spark-classes"


def _archive(home: Path) -> Path | None:
    """The usable archive."""
    folder = _folder()
    if not folder.is_dir() or not _is_ours(folder):
        return None
    for archive in folder.glob(f"{_digest(home)}-*.jsa"):
        size = archive.stem.rpartition("-")[2]
        if size == str(archive.stat().st_size) and _is_ours(archive):
            return archive
    return None


def _is_ours(path: Path) -> bool:
    status = path.stat()
    return status.st_uid == os.geteuid() and not status.st_mode & _OTHERS_WRITE


def _digest(home: Path) -> str:
    """Of the Java that would run, Spark's jars, and the options. Raises OSError without Java."""
    java_home = os.environ.get("JAVA_HOME")
    java = Path(java_home) / "bin" / "java" if java_home else Path(shutil.which("java") or "java")
    java = java.resolve(strict=True)
    parts = [BASE_OPTIONS, str(java), _mark(java.stat()), str(home.resolve())]
    with os.scandir(home / "jars") as jars:
        parts += sorted(f"{jar.name} {_mark(jar.stat())}" for jar in jars)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:20]


def _mark(status: os.stat_result) -> str:
    """What changes with a file. Its time in seconds, as Java compares it: layers of images keep no fractions."""
    return f"{status.st_size} {int(status.st_mtime)}"


def _changed_ns(path: Path) -> int:
    return path.stat().st_mtime_ns


def _available_bytes() -> float:
    """Memory that a new process can have: of the machine, and of the container."""
    available: float = psutil.virtual_memory().available
    with suppress(OSError, ValueError):
        group = Path("/sys/fs/cgroup")
        available = min(
            available,
            int((group / "memory.max").read_text()) - int((group / "memory.current").read_text()),
        )
    return available


@contextmanager
def _alone(lock: Path) -> Iterator[bool]:
    """Whether no other process makes one."""
    with lock.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        yield True


def _lowest_priority() -> None:
    os.nice(19)
    with suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def main() -> int:
    """Make it; for a run, with the processor time that nobody else wants. Returns the exit code."""
    from engine.spark.driver_process import spark_home

    if _IDLE in sys.argv:
        _lowest_priority()
    home = spark_home()
    return 0 if home is not None and make(home) is not None else 1


if __name__ == "__main__":
    sys.exit(main())
