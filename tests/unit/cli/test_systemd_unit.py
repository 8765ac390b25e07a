"""The systemd unit of a pipeline: systemd accepts it, and it agrees with exit codes and the way a run stops."""

import shutil
import subprocess
from configparser import ConfigParser
from pathlib import Path

import pytest

from engine.base.errors import ERRORS
from engine.cli.systemd_unit import quoted, unit_of
from engine.pipeline.directory import directory_of
from engine.spec.settings import load
from engine.watch.restart_rules import after_code

SPEC = """
name = "shop"
[source]
host = "127.0.0.1"
user = "u"
password_env = "SHOP_PASSWORD"
tables = ["s.t"]
[sink]
type = "delta"
path = "lake"
"""


@pytest.fixture
def unit(tmp_path: Path) -> str:
    """The unit of a pipeline in a folder with a blank, a quote and a per cent sign in its name."""
    folder = tmp_path / 'my "50%" shops'
    folder.mkdir()
    file = folder / "shop.toml"
    file.write_text(SPEC)
    spec = load(file)
    return unit_of(spec, file, directory_of(file, spec.name))


def test_systemd_accepts_the_unit(unit: str, tmp_path: Path) -> None:
    """Without a warning about the unit. Where systemd is not installed, it is parsed."""
    parsed = ConfigParser(interpolation=None, strict=True)
    parsed.optionxform = str  # type: ignore[assignment,method-assign]
    parsed.read_string(unit)
    assert parsed.sections() == ["Unit", "Service", "Install"]
    if (systemd := shutil.which("systemd-analyze")) is None:
        return
    file = tmp_path / "tidemark-shop.service"
    file.write_text(unit)
    found = subprocess.run([systemd, "verify", "--man=no", str(file)], capture_output=True, text=True, check=False)
    assert (found.returncode, [line for line in found.stderr.splitlines() if "tidemark-shop" in line]) == (0, [])


def test_the_unit_agrees_with_the_exit_codes(unit: str) -> None:
    """Systemd restarts after those codes after which the watchdog would, and no others."""
    parsed = ConfigParser(interpolation=None)
    parsed.read_string(unit)
    service = parsed["Service"]
    final = {int(code) for code in service["RestartPreventExitStatus"].split()}
    assert final == {kind.exit_code for kind in ERRORS.values()} - {1} | {130, 143}, "a second signal is no failure"
    assert all(after_code(code) for code in final - {6, 130, 143})
    assert (service["Restart"], service["KillMode"], service["KillSignal"]) == ("on-failure", "mixed", "SIGTERM")
    assert service["ExecStart"].endswith('shop.toml" --service')
    assert service["EnvironmentFile"] == "-/etc/tidemark/shop.env"
    assert "SHOP_PASSWORD=…" in unit
    assert "StartLimitBurst=6" in unit


def test_words_of_a_command_line_are_quoted() -> None:
    """So that systemd neither splits nor expands them."""
    assert quoted("/usr/bin/tidemark") == "/usr/bin/tidemark"
    assert quoted("/a b/50%/$x") == '"/a b/50%%/$$x"'
    assert quoted('a"b\\c') == '"a\\"b\\\\c"'
