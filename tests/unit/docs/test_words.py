"""One word per concept, the field's own (docs/glossary.md).

Words that a reader would have to learn do not come back.
"""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]
BANNED = {
    "alarm": "alert, notifier",
    "anew": "again, restart, resnapshot",
    "carrying": "fast-forward",
    "census": "event statistics",
    "copied again": "resnapshotted",
    "copy it again": "resnapshot it",
    "copy the table again": "resnapshot the table",
    "copy the tables again": "resnapshot the tables",
    "cutter": "chunk splitter",
    "drawer": "chunk details",
    "go on": "continue",
    "goes on": "continues",
    "heal": "repair",
    "healed": "repaired",
    "heals": "repairs",
    "followed anew": "streaming restarted",
    "happenings": "events",
    "joining": "membership",
    "mend": "fix, repair",
    "mended": "fixed, resolved",
    "of theirs": "their",
    "outcomes of": "transaction outcomes",
    "paid for": "the rate limit has caught up",
    "passed over": "skipped",
    "passes over": "skips",
    "put off": "defer",
    "refreshing": "redump; the page's own: autorefresh",
    "situation": "runner notice",
    "tidy": "orphans",
    "_tm_refresh": "_tm_redump",
}
"""A word, and what we say instead."""
_PATHS = ("engine", "app", "docs", "README.md", "CONTRIBUTING.md", "tests")
_HERE = Path(__file__).relative_to(ROOT).as_posix()
_FILES = sorted(
    ROOT / name
    for name in subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *_PATHS],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    if name.endswith((".py", ".md", ".js", ".css")) and name != _HERE
)


def test_no_word_stands_where_there_is_a_better_one() -> None:
    """In code, comments, texts and documents."""
    found = re.compile(rf"(?<![A-Za-z])({'|'.join(map(re.escape, BANNED))})(?![A-Za-z])", re.IGNORECASE)
    lines = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()} (say: {BANNED[match[1].lower()]})"
        for path in _FILES
        if path.exists()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if (match := found.search(line))
    ]
    assert not lines, "\n".join(lines)


def test_the_glossary_has_a_meaning_for_each_word() -> None:
    """Every row names a word, a meaning, and what Flink CDC, Debezium and DBLog call it."""
    rows = [
        line for line in (ROOT / "docs/glossary.md").read_text(encoding="utf-8").splitlines() if line.startswith("| ")
    ]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[1:]]
    assert len(cells) > 30
    assert all(len(row) == 5 and all(row) for row in cells)
    words = [row[0] for row in cells]
    assert words == sorted(words, key=str.casefold)
    assert len(set(words)) == len(words)
