"""The systemd unit of a pipeline. It matches the command line's exit codes and the way in which a run stops.

Restart                    after exit code 1 and after signals; other codes come back until an operator has acted
SuccessExitStatus          none: `run --service` ends with 0 after a stop, also if tables are stopped
KillMode, KillSignal       only the runner gets SIGTERM: it finishes what is in progress, for which it needs Spark's
                           processes
TimeoutStopSec             the time for that; a run that is killed afterwards loses nothing but the work of its last
                           epoch
"""

import getpass
import os
import sys
from pathlib import Path

from engine.base.exit_codes import NEEDS_OPERATOR
from engine.pipeline.directory import Directory
from engine.spec.settings import Spec

STOP_S = 300
_FIRST_S, _MOST, _WITHIN_S = 5, 6, 3600


def unit_of(spec: Spec, spec_file: Path, directory: Directory) -> str:
    """The text of the unit file."""
    # 130 and 143: it was asked to stop twice.
    final = " ".join(map(str, [*NEEDS_OPERATOR, 130, 143]))
    command = " ".join(map(quoted, [*_command(), "run", str(spec_file.absolute()), "--service"]))
    secrets = f"/etc/tidemark/{spec.name}.env"
    java = os.environ.get("JAVA_HOME")
    environment = f"Environment={quoted(f'JAVA_HOME={java}')}\n" if java else ""
    return f"""\
# /etc/systemd/system/tidemark-{spec.name}.service
# Install it:  sudo systemctl daemon-reload && sudo systemctl enable --now tidemark-{spec.name}
# Stop it:     sudo systemctl stop tidemark-{spec.name}, or tidemark stop SPEC
[Unit]
Description=Tidemark pipeline {spec.name}
Wants=network-online.target
After=network-online.target
# At most {_MOST} restarts within an hour; then it stays down.
StartLimitIntervalSec={_WITHIN_S}
StartLimitBurst={_MOST}

[Service]
Type=exec
User={getpass.getuser()}
WorkingDirectory={_escaped(str(directory.root.parent.absolute()))}
ExecStart={command}
# {_secrets(spec)}
EnvironmentFile=-{_escaped(secrets)}
{environment}# Exit code 1 and signals may pass. After the others, a restart fails again until somebody has acted.
Restart=on-failure
RestartPreventExitStatus={final}
RestartSec={_FIRST_S}
# Only the runner is asked to stop. It publishes what is in progress, and ends Spark's processes itself.
KillMode=mixed
KillSignal=SIGTERM
TimeoutStopSec={STOP_S}

[Install]
WantedBy=multi-user.target
"""


def _command() -> list[str]:
    script = Path(sys.executable).with_name("tidemark")
    return [str(script)] if script.exists() else [sys.executable, "-m", "engine"]


def _secrets(spec: Spec) -> str:
    """What the file with the environment must have."""
    servers = [one for sink in (spec.sink, *spec.sinks) for one in (sink.catalog, sink.kafka, sink.database) if one]
    of_servers = [variable for server in servers for variable, _ in server.secrets()]
    names = [spec.source.password_env, spec.mask_salt_env, *of_servers, *spec.alerts.variables()]
    lines = ", ".join(f"{name}=…" for name in names if name)
    return (
        f"Secrets, readable by root only (chmod 600): {lines}"
        if lines
        else "Secrets would go into this file (chmod 600)."
    )


def quoted(word: str) -> str:
    """A word of a command line in a unit."""
    plain = word.replace("%", "%%").replace("$", "$$")
    if all(letter.isalnum() or letter in "/._-+=:,@%$" for letter in plain):
        return plain
    return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _escaped(path: str) -> str:
    """A path as the value of a key, which systemd does not split."""
    return path.replace("%", "%%")
