"""`runner.log` stays bounded while a process keeps writing to it."""

import gzip
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
WRITES = """
import sys
from pathlib import Path
from engine.base.log_rotation import rotate
log = Path(sys.argv[1])
for part in range(6):
    for number in range(200):
        print(part, number, flush=True)
    rotate(log, 500)
print("end", flush=True)
"""


def test_a_log_is_cut_while_it_is_written(tmp_path: Path) -> None:
    """The newest content is in the log and its last three rotations, and nothing is twice or torn."""
    log = tmp_path / "runner.log"
    with log.open("ab") as out:
        subprocess.run([sys.executable, "-c", WRITES, str(log)], stdout=out, cwd=ROOT, check=True)
    assert log.read_text() == "end\n"
    parts = [gzip.decompress((tmp_path / f"runner.log.{n}.gz").read_bytes()).decode().split("\n") for n in (3, 2, 1)]
    for part, lines in zip((3, 4, 5), parts, strict=True):
        assert lines == [*(f"{part} {number}" for number in range(200)), ""]
    assert not (tmp_path / "runner.log.4.gz").exists()


def test_the_log_of_another_process_is_left_alone(tmp_path: Path) -> None:
    """A runner in a terminal does not write there."""
    log = tmp_path / "runner.log"
    log.write_text("x\n" * 1000)
    subprocess.run([sys.executable, "-c", WRITES, str(log)], stdout=subprocess.DEVNULL, cwd=ROOT, check=True)
    assert log.stat().st_size == 2000
