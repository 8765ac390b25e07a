"""Initialised data directories, made once per server version and copied for every server.

Initialising takes seconds, copying a fraction of one. A template has the users of `users` and no binlog at all, so that
a copied server's first binlog begins with what the test does. The server's uuid is not copied: it must be unique.
"""

import hashlib
import shutil
import subprocess
from pathlib import Path

from tests.servers.binaries import MARIADB_HINT, NoServerError, Program
from tests.servers.cache import cache_folder, locked
from tests.servers.options import Options, run_as
from tests.servers.users import initial_statements

UUID_FILE = "auto.cnf"
CERTIFICATE, PRIVATE_KEY = "server-cert.pem", "server-key.pem"


def template(program: Program, options: Options) -> Path:
    """An initialised data directory for that program, built at the first call."""
    initial = options.initial()
    variant = "-" + hashlib.sha256(repr(initial).encode()).hexdigest()[:8] if initial else ""
    name = f"{program.flavor}-{program.version}{variant}"
    folder = cache_folder() / "data" / name
    with locked(f"data-{name}"):
        if not folder.exists():
            building = folder.with_name(name + ".new")
            shutil.rmtree(building, ignore_errors=True)
            building.parent.mkdir(parents=True, exist_ok=True)
            _initialise(program, building, [f"--{key.replace('_', '-')}={value}" for key, value in initial])
            (building / UUID_FILE).unlink(missing_ok=True)
            building.rename(folder)
    return folder


def copy_template(program: Program, options: Options, data: Path) -> None:
    """Give a new server its data directory; sockets and locks are not in a template, so a plain copy does."""
    shutil.copytree(template(program, options), data)


def certificate() -> tuple[Path, Path]:
    """A self-signed certificate for 127.0.0.1 and localhost and its key; the certificate is also its own authority."""
    folder = cache_folder() / "tls"
    cert, key = folder / CERTIFICATE, folder / PRIVATE_KEY
    with locked("tls"):
        if not cert.exists():
            folder.mkdir(exist_ok=True)
            command = [
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "rsa:2048",
                "-nodes",
                "-days",
                "3650",
                "-subj",
                "/CN=127.0.0.1",
            ]
            command += ["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
            command += ["-addext", "keyUsage=critical,digitalSignature,keyEncipherment,keyCertSign"]
            _run([*command, "-keyout", str(key), "-out", str(cert) + ".new"])
            Path(str(cert) + ".new").rename(cert)
    return cert, key


def _initialise(program: Program, data: Path, initial: list[str]) -> None:
    users = data.with_name(data.name + ".sql")
    users.write_text("".join(f"{statement};\n" for statement in initial_statements()))
    try:
        if program.flavor == "mysql":
            init = ["--initialize-insecure", f"--init-file={users}", "--innodb-redo-log-capacity=8M"]
            common = [
                "--no-defaults",
                *program.arguments,
                f"--datadir={data}",
                "--skip-log-bin",
                "--auto-generate-certs=OFF",
            ]
            _run([*program.command, *common, *init, *initial, *run_as()])
        else:
            _initialise_mariadb(program, data, users, initial)
    finally:
        users.unlink()


def _initialise_mariadb(program: Program, data: Path, users: Path, initial: list[str]) -> None:
    common = [f"--datadir={data}", "--innodb-log-file-size=8M", *initial, *run_as()]
    bootstrap = [*program.command, "--no-defaults", *program.arguments, *common, "--bootstrap", "--skip-log-bin"]
    statements = "FLUSH PRIVILEGES;\n" + users.read_text()
    if program.system_tables:
        data.mkdir()
        scripts = "\n".join(script.read_text(encoding="utf-8") for script in program.system_tables)
        tables = f"CREATE DATABASE IF NOT EXISTS mysql;\nUSE mysql;\nSET @auth_root_socket = NULL;\n{scripts}\n"
        _run([*bootstrap, "--max-allowed-packet=8M"], tables + statements)
        return
    install = shutil.which("mariadb-install-db") or shutil.which("mysql_install_db")
    if install is None:
        raise NoServerError(f"mariadb-install-db is missing; {MARIADB_HINT}")
    _run([install, "--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db", *common])
    _run(bootstrap, statements)


def _run(command: list[str], text: str = "") -> None:
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NoServerError(f"`{command[0]}` failed with {done.returncode}:\n{done.stdout}{done.stderr}")
