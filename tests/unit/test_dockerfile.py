"""What can be checked of the image without building it."""

import fnmatch
import re
from pathlib import Path

import pytest

from app.common.view.roles import EVERYBODY, closed

ROOT = Path(__file__).parents[2]
CUT = "# Tests and tools only"


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions with their arguments, continued lines joined."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return [(name, rest.strip()) for name, _, rest in (line.partition(" ") for line in text.splitlines() if line)]


def arguments(name: str) -> list[str]:
    """The arguments of every instruction of that name."""
    return [rest for found, rest in instructions() if found == name]


def is_sent(path: str) -> bool:
    """Whether .dockerignore lets `path` into the build: the last rule that matches decides."""
    sent = True
    for rule in (ROOT / ".dockerignore").read_text().splitlines():
        pattern = rule.removeprefix("!")
        if rule and not rule.startswith("#") and fnmatch.fnmatch(path, pattern):
            sent = rule.startswith("!")
    return sent


@pytest.mark.parametrize("source", [word for copy in arguments("COPY") for word in copy.split()[:-1]])
def test_what_is_copied_exists_and_is_sent(source: str) -> None:
    """Each COPY source is in the repository and not ignored."""
    assert (ROOT / source).exists()
    assert is_sent(source)


def test_nothing_else_is_sent() -> None:
    """Local state and secrets stay out of the build."""
    assert not any(
        is_sent(path) for path in (".venv", ".git", "tests", "docs/console.md", ".env", "app/.streamlit/secrets.toml")
    )


def test_it_does_not_run_as_root() -> None:
    """The last USER is not root, and comes before the command."""
    assert arguments("USER")[-1] not in {"root", "0"}
    names = [name for name, _ in instructions()]
    assert names.index("USER") < names.index("CMD")


def test_it_is_watched() -> None:
    """A health check asks the console on the exposed port that the command sets."""
    port = arguments("EXPOSE")[0]
    assert f":{port}/" in arguments("HEALTHCHECK")[0]
    assert f"--server.port={port}" in arguments("CMD")[0]


def test_pipelines_outlive_the_container() -> None:
    """TIDEMARK_HOME is a volume that belongs to the user."""
    home = re.search(r"TIDEMARK_HOME=(\S+)", arguments("ENV")[0])
    assert home
    assert arguments("VOLUME") == [home[1]]
    assert any(home[1] in command and "--owner=" + arguments("USER")[-1] in command for command in arguments("RUN"))


def test_test_tools_stay_out() -> None:
    """The marker at which the image truncates the requirements occurs once, with the tools below it."""
    requirements = (ROOT / "requirements.txt").read_text()
    assert any(CUT in command for command in arguments("RUN"))
    assert requirements.count(CUT) == 1
    runtime, tools = requirements.split(CUT)
    assert "pyspark==" in runtime
    assert "pytest==" in tools


def test_nobody_is_an_operator_by_default() -> None:
    """The image listens on all addresses; only a flag that the operator sets makes everybody an operator."""
    text = (ROOT / "Dockerfile").read_text()
    environment = " ".join(arguments("ENV"))
    assert "STREAMLIT_SERVER_ADDRESS=0.0.0.0" in environment
    assert EVERYBODY not in environment
    assert closed("0.0.0.0", {"STREAMLIT_SERVER_ADDRESS": "0.0.0.0"})  # noqa: S104 - what the image listens on
    head = text[: text.index("FROM ")]
    assert f"-e {EVERYBODY}=1 makes an operator of everybody" in head
    first, *_ = [line for line in head.splitlines() if "docker run" in line]
    assert EVERYBODY not in first
    assert "127.0.0.1:8501:8501" in first
