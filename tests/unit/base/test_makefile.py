"""What `make test` runs."""

import re
import shlex

from tests.support.pages import ROOT


def test_every_test_belongs_to_make_test() -> None:
    """Each file of tests stands in exactly one of its groups, or in `make check`.

    No group leaves out tests by their marks.
    """
    makefile = (ROOT / "Makefile").read_text()
    found: list[str] = []
    for name in ("ALONE", "TOGETHER"):
        (line,) = re.findall(rf"^{name} := (.*)$", makefile, re.MULTILINE)
        words = shlex.split(line)
        assert not {"-m", "-k", "--deselect"} & set(words)
        ignored = {words[at + 1] for at, word in enumerate(words) if word == "--ignore"}
        paths = [word for word in words if word.startswith("tests/") and word not in ignored]
        files = [
            file
            for path in paths
            for file in ([ROOT / path] if path.endswith(".py") else (ROOT / path).rglob("test_*.py"))
        ]
        found += [name for file in files if (name := str(file.relative_to(ROOT))) not in ignored]
    every = {str(file.relative_to(ROOT)) for file in (ROOT / "tests").rglob("test_*.py")}
    assert sorted(found) == sorted(name for name in every if not name.startswith("tests/unit/"))
