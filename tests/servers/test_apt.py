"""Apt sources are read as sources.list(5) describes them."""

from tests.servers.apt import Source, parse_deb822, parse_one_line

DEB822 = """\
# a comment
Types: deb deb-src
URIs: mirror+file:/one
# within the stanza
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /keys/debian.gpg

Enabled: no
Types: deb
URIs: file:/two
Suites: bookworm
Components: main

Types: deb
URIs: file:/three
Suites: bookworm
Components: main
Signed-By:
 -----BEGIN KEY-----
 .
 abc
"""

ONE_LINE = """\
# deb file:/no bookworm main
deb [arch=amd64 signed-by=/keys/k.gpg] file:/one bookworm main contrib # why
deb-src file:/src bookworm main
deb file:/two sid main
"""


def test_stanzas_are_read() -> None:
    """Comments and disabled stanzas are skipped; an embedded key stays as it is."""
    assert parse_deb822(DEB822) == [
        Source("mirror+file:/one", ("bookworm", "bookworm-updates"), ("main", "contrib"), "/keys/debian.gpg"),
        Source("file:/three", ("bookworm",), ("main",), "\n -----BEGIN KEY-----\n .\n abc"),
    ]


def test_lines_are_read() -> None:
    """Options in brackets are understood; other kinds of line are not sources of packages."""
    assert parse_one_line(ONE_LINE) == [
        Source("file:/one", ("bookworm",), ("main", "contrib"), "/keys/k.gpg"),
        Source("file:/two", ("sid",), ("main",), None),
    ]


def test_only_the_suite_is_replaced() -> None:
    """The same mirror and the same key serve another suite."""
    (source,) = parse_one_line("deb [signed-by=/k] file:/m bookworm main")
    assert source.with_suite("sid") == "Types: deb\nURIs: file:/m\nSuites: sid\nComponents: main\nSigned-By: /k\n"
