"""Where the server programs are and how to start them: MySQL 8.4 or newer, MariaDB 10.11 or newer."""

import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.servers.apt import CannotFetchError, fetch
from tests.servers.cache import cache_folder, locked

MYSQL_PACKAGE = "mysql-server-core"
MYSQL_SUITE = "sid"
OLDEST = {"mysql": (8, 4), "mariadb": (10, 11)}
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


@cache
def find(flavor: str) -> Program:
    """The server program of that flavor on this machine, fetched if that is possible without root."""
    program = _on_path(flavor)
    if program is not None:
        return program
    if flavor == "mysql":
        return _private_mysql()
    raise NoServerError(f"no MariaDB server on this machine; {MARIADB_HINT}")


def installed(flavor: str) -> bool:
    """Whether the server program is on this machine, so that `find` fetches nothing."""
    private = cache_folder() / "mysql-9/usr/sbin/mysqld"
    return _on_path(flavor) is not None or (flavor == "mysql" and private.exists())


def _on_path(flavor: str) -> Program | None:
    for name in PROGRAMS[flavor]:
        for place in (None, *EXTRA_PLACES):
            path = shutil.which(name, path=place)
            version = _version((path,), flavor) if path else None
            if path and version:
                return Program(flavor, version, (path,))
    return None


def _version(command: tuple[str, ...], flavor: str) -> str | None:
    """The program's version if it is of that flavor and new enough; ``mysqld`` may well be MariaDB's."""
    output = subprocess.run(
        [*command, "--no-defaults", "--version"], capture_output=True, text=True, check=False
    ).stdout
    found = re.search(r"Ver (\d+)\.(\d+)\.(\d+)", output)
    if not found or ("MariaDB" in output) != (flavor == "mariadb"):
        return None
    major, minor, patch = (int(part) for part in found.groups())
    return f"{major}.{minor}.{patch}" if (major, minor) >= OLDEST[flavor] else None


def _private_mysql() -> Program:
    prefix = cache_folder() / "mysql-9"
    with locked("mysql-9"):
        if not (prefix / "usr/sbin/mysqld").exists():
            try:
                fetch(MYSQL_PACKAGE, MYSQL_SUITE, prefix)
            except CannotFetchError as error:
                raise NoServerError(
                    f"no MySQL 8.4 or newer on this machine, and a private one cannot be fetched: {error}\n"
                    "Install MySQL yourself and put its mysqld on PATH, or repair apt and run: make setup"
                ) from error
    command = _private_command(prefix)
    version = _version(command, "mysql")
    if version is None:
        raise NoServerError(
            f"the private MySQL does not start; remove {prefix} and run: python -m tests.servers.provision"
        )
    usr = prefix / "usr"
    plugins = next(iter(sorted(usr.glob("lib/**/mysql/plugin"))), usr / "lib/mysql/plugin")
    arguments = (f"--basedir={usr}", f"--lc-messages-dir={usr}/share/mysql", f"--plugin-dir={plugins}")
    return Program("mysql", version, command, (*arguments, f"--character-sets-dir={usr}/share/mysql/charsets"))


def _private_command(prefix: Path) -> tuple[str, ...]:
    """Start through the prefix's own loader: its C library is newer than the system's."""
    usr = prefix / "usr"
    loader = next(iter(sorted(usr.glob("lib/*-linux-gnu*/ld-linux-*.so.*"))), None)
    if loader is None:
        raise NoServerError(f"{prefix} holds no loader; remove it and run: python -m tests.servers.provision")
    private = sorted(str(folder) for folder in usr.glob("lib/**/mysql/private"))
    return (str(loader), "--library-path", ":".join([str(loader.parent), *private]), str(usr / "sbin/mysqld"))
