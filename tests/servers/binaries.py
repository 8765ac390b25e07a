"""Where the server programs are and how to start them.

MySQL 8.4 or newer, MariaDB 10.11 or newer, and MariaDB's newest LTS.

The machine's own programs are preferred. MySQL, and the release `NEWEST` of MariaDB, are fetched into private prefixes.
With ``TIDEMARK_MARIADB=11.8``, all tests on MariaDB run on that release.
"""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.servers.apt import CannotFetchError, fetch
from tests.servers.cache import cache_folder, locked

SUITE = "sid"
NEWEST = "11.8"
"""The release of MariaDB that is tested besides the machine's own."""
OLDEST = {("mysql", ""): (8, 4), ("mariadb", ""): (10, 11), ("mariadb", NEWEST): (11, 8)}
"""By flavor and release; the empty release is the machine's own, or the usual one."""
PROGRAMS = {"mysql": ("mysqld",), "mariadb": ("mariadbd", "mysqld")}
MARIADB_HINT = "as root: apt-get install mariadb-server-core mariadb-client-core (or: make setup)"
EXTRA_PLACES = ("/usr/sbin", "/usr/local/sbin", "/usr/local/mysql/bin", "/usr/libexec")


class NoServerError(Exception):
    """A server program is missing; the message names the command that brings it."""


@dataclass(frozen=True)
class Program:
    """A server program: the command that starts it (with its own loader, if private), and what it always needs."""

    flavor: str
    version: str
    command: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    system_tables: tuple[Path, ...] = ()
    """The scripts that make MariaDB's system tables, if mariadb-install-db cannot: it knows no loader."""


@dataclass(frozen=True)
class _Private:
    """A server that is unpacked under a prefix of its own."""

    prefix: str
    package: str
    program: str
    alone: tuple[str, ...] = ()
    """Packages with further storage engines."""


_PRIVATE = {
    ("mysql", ""): _Private("mysql-9", "mysql-server-core", "usr/sbin/mysqld"),
    ("mariadb", NEWEST): _Private(
        "mariadb-11", "mariadb-server-core", "usr/sbin/mariadbd", ("mariadb-server", "mariadb-plugin-spider")
    ),
}
_SYSTEM_TABLES = (
    "mariadb_system_tables.sql",
    "mariadb_performance_tables.sql",
    "mariadb_system_tables_data.sql",
    "maria_add_gis_sp_bootstrap.sql",
    "mariadb_sys_schema.sql",
)


def find(flavor: str, release: str = "") -> Program:
    """The server program of that flavor on this machine, fetched if that is possible without root."""
    if flavor == "mariadb":
        release = release or os.environ.get("TIDEMARK_MARIADB", "")
    return _found(flavor, release)


@cache
def _found(flavor: str, release: str) -> Program:
    program = None if release else _on_path(flavor)
    if program is not None:
        return program
    if (flavor, release) in _PRIVATE:
        return _fetched(flavor, release)
    raise NoServerError(f"no MariaDB server on this machine; {MARIADB_HINT}")


def installed(flavor: str) -> bool:
    """Whether the server program is on this machine, so that `find` fetches nothing."""
    private = _PRIVATE.get((flavor, ""))
    return _on_path(flavor) is not None or (
        private is not None and (cache_folder() / private.prefix / private.program).exists()
    )


def _on_path(flavor: str) -> Program | None:
    for name in PROGRAMS[flavor]:
        for place in (None, *EXTRA_PLACES):
            path = shutil.which(name, path=place)
            version = _version((path,), flavor, "") if path else None
            if path and version:
                return Program(flavor, version, (path,))
    return None


def _version(command: tuple[str, ...], flavor: str, release: str) -> str | None:
    """The program's version if it is of that flavor and new enough; ``mysqld`` may well be MariaDB's."""
    output = subprocess.run(
        [*command, "--no-defaults", "--version"], capture_output=True, text=True, check=False
    ).stdout
    match = re.search(r"Ver (\d+)\.(\d+)\.(\d+)", output)
    if not match or ("MariaDB" in output) != (flavor == "mariadb"):
        return None
    major, minor, patch = (int(part) for part in match.groups())
    return f"{major}.{minor}.{patch}" if (major, minor) >= OLDEST[flavor, release] else None


def _fetched(flavor: str, release: str) -> Program:
    private, oldest = _PRIVATE[flavor, release], ".".join(map(str, OLDEST[flavor, release]))
    prefix = cache_folder() / private.prefix
    with locked(private.prefix):
        if not (prefix / private.program).exists():
            try:
                fetch(private.package, SUITE, prefix, private.alone)
            except CannotFetchError as error:
                raise NoServerError(
                    f"no {flavor} {oldest} or newer on this machine, and a private one cannot be fetched: {error}\n"
                    "Repair apt and run: make setup. Instead of a private MySQL, you can put your own mysqld on PATH."
                ) from error
    command = _private_command(prefix, private.program)
    version = _version(command, flavor, release)
    if version is None:
        raise NoServerError(
            f"the private {flavor} does not start, or is older than {oldest}; remove {prefix} and run: "
            "python -m tests.servers.provision"
        )
    return Program(flavor, version, command, *_own_files(flavor, prefix / "usr"))


def _own_files(flavor: str, usr: Path) -> tuple[tuple[str, ...], tuple[Path, ...]]:
    """The arguments that name a private server's own files, and the scripts for its system tables."""
    share = usr / "share" / flavor
    plugins = next(iter(sorted(usr.glob("lib/**/mysql/plugin"))), usr / "lib/mysql/plugin")
    arguments = (f"--basedir={usr}", f"--lc-messages-dir={share}", f"--plugin-dir={plugins}")
    scripts = tuple(share / name for name in _SYSTEM_TABLES) if flavor == "mariadb" else ()
    return (*arguments, f"--character-sets-dir={share}/charsets"), scripts


def _private_command(prefix: Path, program: str) -> tuple[str, ...]:
    """Start through the prefix's own loader: its C library is newer than the system's."""
    usr = prefix / "usr"
    loader = next(iter(sorted(usr.glob("lib/*-linux-gnu*/ld-linux-*.so.*"))), None)
    if loader is None:
        raise NoServerError(f"{prefix} holds no loader; remove it and run: python -m tests.servers.provision")
    private = sorted(str(folder) for folder in usr.glob("lib/**/mysql/private"))
    return (str(loader), "--library-path", ":".join([str(loader.parent), *private]), str(prefix / program))
