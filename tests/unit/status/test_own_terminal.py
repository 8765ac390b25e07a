"""What child processes print does not reach the terminal of a run."""

import subprocess
import sys
from pathlib import Path

CODE = """
import subprocess, sys
from pathlib import Path
from engine.status.own_terminal import own_terminal
print("before")
with own_terminal(Path(sys.argv[1])) as terminal:
    subprocess.run(["sh", "-c", "echo from a child; echo warning of a child >&2"])
    print("bar", file=terminal, flush=True)
    print("a line of Python")
print("after")
print("error after", file=sys.stderr)
"""


def test_children_write_to_the_log_and_the_run_to_the_terminal(tmp_path: Path) -> None:
    """The log is appended to. Afterwards, stdout and stderr are as before."""
    log = tmp_path / "shop" / "runner.log"
    log.parent.mkdir()
    log.write_text("an earlier run\n")
    found = subprocess.run([sys.executable, "-c", CODE, str(log)], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines() == ["before", "bar", "after"]
    assert found.stderr.splitlines() == ["error after"]
    assert log.read_text().splitlines() == [
        "an earlier run",
        "from a child",
        "warning of a child",
        "a line of Python",
    ]
