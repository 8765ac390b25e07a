"""Servers that encrypt their binlog: MySQL with a keyring component, MariaDB with its plugin `file_key_management`.

MySQL loads a keyring only if a manifest lies beside its program, so the program is copied into a folder of its own,
which is also its folder of plugins. Debian packs MariaDB's plugin with the whole server; it is unpacked from there, and
nothing is installed.
"""

import json
import shutil
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.servers.binaries import NoServerError, Program, find
from tests.servers.cache import cache_folder, locked
from tests.servers.options import Options
from tests.servers.server import Server

COMPONENT, PLUGIN = "component_keyring_file", "file_key_management"
OPTION = {"mysql": "binlog_encryption", "mariadb": "encrypt_binlog"}
"""The server option that encrypts binlog files from the next one on."""


def start_encrypted(flavor: str, **options: Any) -> Server:
    """Start a private server that encrypts its binlog. `restart(**{OPTION[flavor]: 0})` ends that."""
    wanted = Options.of(flavor, **{OPTION[flavor]: 1, **options})
    server = Server(_with_keyring(), wanted) if flavor == "mysql" else _mariadb(wanted)
    try:
        if flavor == "mysql":
            _write_json(server.data / "mysqld.my", {"components": f"file://{COMPONENT}"})
            _write_json(server.data / f"{COMPONENT}.cnf", {"path": str(server.folder / "keyring"), "read_only": False})
        server.launch()
    except BaseException:
        server.close()
        raise
    return server


def _mariadb(options: Options) -> Server:
    program, folder = find("mariadb"), _plugin_folder()
    options = options.changed(plugin_load_add=PLUGIN, plugin_dir=folder, file_key_management_filename=folder / "keys")
    return Server(program, options)


def _with_keyring() -> Program:
    """MySQL's program, copied into a folder with a manifest and the component."""
    program = find("mysql")
    mysqld = Path(program.command[-1])
    plugins = next((a.partition("=")[2] for a in program.arguments if a.startswith("--plugin-dir=")), None)
    component = Path(plugins or _plugin_dir(program)) / f"{COMPONENT}.so"
    if not component.exists():
        raise NoServerError(f"{component} is missing: this MySQL cannot encrypt its binlog")
    folder = cache_folder() / f"keyring-{program.version}"
    with locked(folder.name):
        if not (folder / "mysqld.my").exists():
            folder.mkdir(exist_ok=True)
            for path in (mysqld, component):
                shutil.copy2(path, folder / path.name)
            _write_json(folder / f"{COMPONENT}.cnf", {"read_local_config": True})
            _write_json(folder / "mysqld.my", {"read_local_manifest": True})
    arguments = [a for a in program.arguments if not a.startswith("--plugin-dir=")]
    command = (*program.command[:-1], str(folder / mysqld.name))
    return replace(program, command=command, arguments=(*arguments, f"--plugin-dir={folder}"))


def _plugin_dir(program: Program) -> str:
    """The default folder of plugins of a MySQL that is installed in the system."""
    told = subprocess.run(
        [*program.command, "--no-defaults", "--verbose", "--help"], capture_output=True, text=True, check=True
    ).stdout
    return next(line.split()[1] for line in told.splitlines() if line.startswith("plugin-dir "))


def _plugin_folder() -> Path:
    """A folder with MariaDB's plugin and a key for it."""
    folder = cache_folder() / f"mariadb-{PLUGIN}-{find('mariadb').version}"
    with locked(folder.name):
        if not (folder / "keys").exists():
            folder.mkdir(exist_ok=True)
            with tempfile.TemporaryDirectory() as unpacked:
                shutil.copy2(_plugin(Path(unpacked)), folder)
            (folder / "keys").write_text("1;" + 16 * "4d" + "\n")
    return folder


def _plugin(work: Path) -> Path:
    for command in (
        ["apt-get", "download", "mariadb-server"],
        ["sh", "-c", "dpkg-deb -x mariadb-server_*.deb ."],
    ):
        done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise NoServerError(f"MariaDB's {PLUGIN} cannot be fetched:\n{done.stderr}")
    return next(work.glob(f"usr/lib/**/{PLUGIN}.so"))


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content))
    path.chmod(0o444)
