"""Journal files are read line by line, whatever their state."""

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from engine.history.journal_slices import BLOCK_BYTES, Slice, parse_line, read_slice


def line(seq: int, **more: object) -> bytes:
    """A line of a journal."""
    return (
        json.dumps({"run": "r", "seq": seq, "ts": "2026-01-31T00:00:00.000000Z", "event": "error", **more}).encode()
        + b"\n"
    )


def piece(path: Path, offset: int, after_seq: int, limit: int = BLOCK_BYTES) -> Slice:
    """A slice of a file."""
    with path.open("rb") as file:
        return read_slice(file, offset, after_seq, limit)


def test_a_half_written_line_is_left_for_the_next_time(tmp_path: Path) -> None:
    """The writer may still be writing it: it is neither read nor counted as malformed."""
    journal = tmp_path / "r.jsonl"
    journal.write_bytes(line(1) + line(2)[:20])
    first = piece(journal, 0, 0)
    assert ([found.seq for found in first.lines], first.malformed) == ([1], 0)
    with journal.open("ab") as file:
        file.write(line(2)[20:])
    second = piece(journal, first.offset, 1)
    assert [found.seq for found in second.lines] == [2]


def test_a_malformed_line_is_counted_and_the_rest_is_read(tmp_path: Path) -> None:
    """A torn line must not hide the rest of a run."""
    journal = tmp_path / "r.jsonl"
    journal.write_bytes(line(1) + b'{"run": "r", "seq"\xff\n' + b"[]\n\n" + line(2))
    found = piece(journal, 0, 0)
    assert [one.seq for one in found.lines] == [1, 2]
    assert found.malformed == 3
    assert found.malformed_text is not None


def test_a_line_that_was_read_already_is_not_read_again(tmp_path: Path) -> None:
    """(run, seq) is unique: a number that does not rise is malformed."""
    journal = tmp_path / "r.jsonl"
    journal.write_bytes(line(1) + line(2) + line(2) + line(1) + line(3))
    found = piece(journal, 0, 0)
    assert ([one.seq for one in found.lines], found.malformed) == ([1, 2, 3], 2)


def test_a_line_longer_than_a_block_is_read_whole(tmp_path: Path) -> None:
    """A plan with many chunks is one long line."""
    journal = tmp_path / "r.jsonl"
    journal.write_bytes(line(1, message="x" * 5000) + line(2))
    first = piece(journal, 0, 0, limit=100)
    assert ([one.seq for one in first.lines], first.more) == ([1], True)
    assert [one.seq for one in piece(journal, first.offset, 1, limit=1000).lines] == [2]


@given(st.binary(max_size=200))
def test_no_bytes_are_fatal(raw: bytes) -> None:
    """Any bytes give a line or a malformed line."""
    parse_line(raw)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_no_json_is_fatal(value: object) -> None:
    """Fields of any type give a line or a malformed line."""
    for name in ("run", "seq", "ts", "event"):
        fields = {"run": "r", "seq": 1, "ts": "2026-01-31T00:00:00.000000Z", "event": "error", name: value}
        parse_line(json.dumps(fields).encode())
