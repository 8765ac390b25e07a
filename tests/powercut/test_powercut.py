"""Power cuts: synced data survives, unsynced data is lost, and every relevant writer is recorded."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.powercut.cut import PowerCut
from tests.powercut.replay import Lost

Run = Callable[[str], None]
HEADER = """
import os
from pathlib import Path
def sync(path):
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
"""


@pytest.fixture
def power(tmp_path: Path) -> PowerCut:
    """A power cut over a folder with one synced file, `old`, which contains "old"."""
    root = tmp_path / "disk"
    root.mkdir()
    (root / "old").write_text("old")
    return PowerCut(root)


@pytest.fixture
def run(power: PowerCut) -> Run:
    """Run lines of Python in the folder, under the shim."""

    def script(lines: str) -> None:
        subprocess.run(
            [sys.executable, "-c", HEADER + textwrap.dedent(lines)],
            cwd=power.root,
            env={**os.environ, **power.environment},
            check=True,
        )

    return script


def held(power: PowerCut) -> dict[str, str]:
    """The content of the folder: files by path; folders end with a slash."""
    return {
        str(path.relative_to(power.root)) + ("/" if path.is_dir() else ""): "" if path.is_dir() else path.read_text()
        for path in power.root.rglob("*")
    }


CASES = {
    "nothing happens": ("", {"old": "old"}),
    "a file that nobody synced": ("Path('new').write_text('n')", {"old": "old"}),
    "a synced file in a folder that was not": ("Path('new').write_text('n'); sync('new')", {"old": "old"}),
    "a file in a synced folder": ("Path('new').write_text('n'); sync('.')", {"old": "old", "new": ""}),
    "both synced": ("Path('new').write_text('n'); sync('new'); sync('.')", {"old": "old", "new": "n"}),
    "the folder was synced too early": ("sync('.'); Path('new').write_text('n'); sync('new')", {"old": "old"}),
    "more was written after the sync": (
        "f = open('new', 'w'); f.write('ab'); f.flush(); os.fsync(f.fileno()); sync('.'); f.write('cd'); f.close()",
        {"old": "old", "new": "ab"},
    ),
    "bytes at the end of an old file": ("f = open('old', 'a'); f.write('er'); f.close()", {"old": "old"}),
    "an old file is written over": ("Path('old').write_text('fresh')", {"old": ""}),
    "a rename that was not synced": (
        "Path('new').write_text('n'); sync('new'); sync('.'); os.replace('new', 'old')",
        {"old": "old", "new": "n"},
    ),
    "a synced rename": ("Path('new').write_text('n'); sync('new'); os.replace('new', 'old'); sync('.')", {"old": "n"}),
    "a synced rename of a file that was not": (
        "Path('new').write_text('n'); os.replace('new', 'old'); sync('.')",
        {"old": ""},
    ),
    "a removal": ("os.unlink('old')", {"old": "old"}),
    "a synced removal": ("os.unlink('old'); sync('.')", {}),
    "removed and made again": ("os.unlink('old'); Path('old').write_text('n'); sync('old')", {"old": "old"}),
    "a hard link": ("os.link('old', 'link')", {"old": "old"}),
    "a synced hard link": ("os.link('old', 'link'); sync('.')", {"old": "old", "link": "old"}),
    "a link that exists": (
        "Path('new').write_text('n'); sync('new'); sync('.')\ntry: os.link('new', 'old')\nexcept FileExistsError: pass",
        {"old": "old", "new": "n"},
    ),
    "a folder": ("os.mkdir('d'); Path('d/f').write_text('n'); sync('d/f'); sync('d')", {"old": "old"}),
    "a synced folder": (
        "os.mkdir('d'); Path('d/f').write_text('n'); sync('d/f'); sync('d'); sync('.')",
        {"old": "old", "d/": "", "d/f": "n"},
    ),
    "a folder whose own entries are not synced": (
        "os.mkdir('d'); sync('.'); Path('d/f').write_text('n'); sync('d/f')",
        {"old": "old", "d/": ""},
    ),
    "a removed folder": (
        (
            "os.mkdir('d'); Path('d/f').write_text('n'); sync('d/f'); sync('d'); sync('.'); "
            "os.unlink('d/f'); os.rmdir('d')"
        ),
        {"old": "old", "d/": "", "d/f": "n"},
    ),
    "a move to another folder of which the new place is synced": (
        "os.mkdir('d'); sync('.'); os.rename('old', 'd/old'); sync('d')",
        {"old": "old", "d/": "", "d/old": "old"},
    ),
    "everything synced": ("Path('new').write_text('n'); os.sync()", {"old": "old", "new": "n"}),
    "a strange name": ("Path('a b%ü').write_text('n'); sync('a b%ü'); sync('.')", {"old": "old", "a b%ü": "n"}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_strict_disk_holds_what_was_synced(power: PowerCut, run: Run, case: str) -> None:
    """For each kind of operation, synced and not."""
    lines, expected = CASES[case]
    run(lines)
    power.cut()
    assert held(power) == expected
    power.cut()
    assert held(power) == expected, "a second cut with nothing in between changes nothing"


def test_a_disk_by_chance_holds_something_between(power: PowerCut, run: Run) -> None:
    """Over the seeds every outcome occurs, the same for the same seed, and synced data always survives."""
    seen = set()
    for seed in range(40):
        run("Path('old').write_text('fresh'); sync('old'); f = open('new', 'w'); f.write('0123456789'); f.close()")
        power.cut(seed)
        assert (power.root / "old").read_text() == "fresh"
        new = power.root / "new"
        seen.add(new.read_text() if new.exists() else None)
        new.unlink(missing_ok=True)
    assert {None, "", "0" * 0, "0123456789", "\0" * 10} <= seen
    assert any(text and text != "0123456789" and "0123456789".startswith(text) for text in seen)


def test_by_chance_a_journal_keeps_order_and_other_disks_do_not(power: PowerCut, run: Run) -> None:
    """Of three renames, a journalling disk keeps the first ones, another disk any of them."""
    seen = set()
    for seed in range(60):
        run("[(Path(n).write_text(n), sync(n)) for n in 'abc']")
        power.cut(seed)
        seen.add("".join(n for n in "abc" if (power.root / n).exists()))
        for name in "abc":
            (power.root / name).unlink(missing_ok=True)
    assert {"", "a", "ab", "abc", "b", "c", "bc", "ac"} == seen


def test_processes_end_at_once_and_children_too(power: PowerCut) -> None:
    """A process during its writes, and its child in another process group."""
    child = "import time; f = open('child', 'a')\nwhile True: f.write('x'); f.flush(); time.sleep(0.001)"
    lines = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {child!r}], start_new_session=True)\n"
    lines += "n = 0\nwhile True: n += 1; f = open(f'f{n}', 'w'); f.write('x'); f.close(); sync(f'f{n}'); sync('.')"
    process = subprocess.Popen(
        [sys.executable, "-c", HEADER + lines], cwd=power.root, env={**os.environ, **power.environment}
    )
    while not (power.root / "child").exists() or not (power.root / "f20").exists():
        assert process.poll() is None
    power.cut()
    assert process.wait(5) == -9
    files = held(power)
    assert {f"f{n}" for n in range(1, 20)} <= set(files)
    numbers = sorted(int(name[1:]) for name in files if name.startswith("f"))
    synced = numbers[:-1]  # the folder's last sync may have just begun
    assert [files[f"f{n}"] for n in synced] == ["x"] * len(synced)
    assert synced == list(range(1, len(synced) + 1))


ARROW = """
import pyarrow as pa, pyarrow.parquet as pq
pq.write_table(pa.table({'a': list(range(1000))}), 'data.parquet')
"""
DELTA = """
import pyarrow as pa
from deltalake import write_deltalake
write_deltalake('lake', pa.table({'a': [1, 2, 3]}))
write_deltalake('lake', pa.table({'a': [4]}), mode='append')
"""
SYNC_ALL = (
    "\nfor folder, folders, files in os.walk('.'):\n    sync(folder)\n    [sync(os.path.join(folder, "
    "f)) for f in files]\n"
)


@pytest.mark.parametrize("lines", [ARROW, DELTA], ids=["arrow", "delta"])
def test_arrow_and_delta_write_what_is_lost(power: PowerCut, run: Run, lines: str) -> None:
    """They sync nothing, so all is lost.

    With synced files it survives, with synced folders alone the files are empty.
    """
    run(lines)
    lost = power.cut()
    assert held(power) == {"old": "old"}
    assert lost.entries
    run(lines + SYNC_ALL)
    assert power.cut() == Lost([], {})
    if lines == DELTA:
        assert sorted(DeltaTable(power.root / "lake").to_pyarrow_table()["a"].to_pylist()) == [1, 2, 3, 4]
    run("for f in list(Path('.').rglob('*.*')): f.is_file() and f.unlink()\n" + lines)
    run("[sync(folder) for folder, _, _ in os.walk('.')]")
    lost = power.cut()
    files = [path for path in power.root.rglob("*.parquet") if path.is_file()]
    assert files
    assert all(path.stat().st_size == 0 for path in files)
    assert {str(path.relative_to(power.root)) for path in files} <= lost.shortened.keys()
