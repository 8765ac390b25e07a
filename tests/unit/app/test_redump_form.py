"""Reading again from the console: the form as words, what it reaches, how it goes."""

import pytest

from app.view import redump_form
from app.view.redump_form import Wish
from engine.history.redumps import Redumped
from tests.unit.app.support import NOW, read


def reached(way: str = "beside the log", rows: int | None = 50, keys: int = 0) -> dict[str, object]:
    """One table as the engine tells it."""
    told = {"table": "d.t", "way": way, "why": "", "of_rows": 1000, "of_bytes": 2000, "rows": rows}
    return {**told, "ranges": [["1", "5"]], "keys": keys}


def test_chunks_are_named_as_people_write_them() -> None:
    """Numbers, ranges with either dash, each once, in their order; anything else is said."""
    assert redump_form.numbers("7, 3-5,4–6") == [7, 3, 4, 5, 6]
    for wrong in ("", "a", "5-3", "1-99999", "1;2"):
        with pytest.raises(ValueError, match=r"number of a chunk|range of chunks"):
            redump_form.numbers(wrong)


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        (Wish("Everything"), ["--all"]),
        (Wish("Table", "d.t"), ["--table", "d.t"]),
        (Wish("Chunks", "d.t", chunks="3, 7-8"), ["--table", "d.t", "--chunk", "3,7,8"]),
        (Wish("Range", "d.t", lower=" 5 "), ["--table", "d.t", "--range", "5", ""]),
        (Wish("Keys", "d.t", keys="1\n2"), ["--table", "d.t", "--keys", "keys.txt"]),
    ],
)
def test_a_form_is_the_words_of_the_command_line(wish: Wish, words: list[str]) -> None:
    """What the page asks is what anybody can ask."""
    assert redump_form.missing(wish) == ""
    assert redump_form.arguments(wish, "keys.txt") == words


def test_what_a_form_lacks_is_said() -> None:
    """Nothing is sent that means something else than was meant."""
    assert "Name chunks" in redump_form.missing(Wish("Chunks", "d.t"))
    assert "no number" in redump_form.missing(Wish("Chunks", "d.t", chunks="x"))
    assert "whole table" in redump_form.missing(Wish("Range", "d.t", lower=" "))
    assert "Paste keys" in redump_form.missing(Wish("Keys", "d.t", keys="\n"))


def test_the_blast_radius_is_in_numbers() -> None:
    """Rows, and seconds by the pace of the last copy; what nobody knows is not shown as known."""
    reads = [read(20, 10, 1000, reader="a"), read(20, 10, 1000, reader="b")]
    assert redump_form.pace(reads, "d.t") == 200
    assert redump_form.expected_s([reached()], reads) == 0.25
    assert redump_form.expected_s([reached()], []) is None
    assert redump_form.expected_s([reached(rows=None)], reads) is None
    assert redump_form.sentence([reached()], 0.25) == (
        "1 table, 50 rows of the mirror, less than a second of reading by the pace of the last copy. The log does not wait for it."
    )
    assert "at most 1,000 rows" in redump_form.sentence([reached(rows=None)], None)
    assert redump_form.sentence([reached("refused")], 1.0) == "Nothing can be read again in this way."
    (line,) = redump_form.reach_rows([reached(rows=3, keys=5)])
    assert line["Rows read again"] == "3 of 5 keys"
    assert redump_form.ranges([reached()], "id") == ["1 ≤ id < 5"]


def test_a_command_is_followed_to_its_end() -> None:
    """Parts, rows and ghosts so far; the share only where somebody knows how much it is; keys that were not there."""
    one = Redumped("c1", NOW, "3 keys of d.t", "me", None, "under way", None, 2, 50, 1, None, None)
    assert redump_form.progress(one, 100) == (
        "blue",
        "3 keys of d.t is being read again: 2 parts, 50 rows, 1 ghost so far",
        0.5,
    )
    assert redump_form.progress(one, None)[2] is None
    assert redump_form.progress(one, 10)[2] == 0.99, "what grew meanwhile is not done"
    done = Redumped("c1", NOW, "3 keys of d.t", "me", None, "done", None, 2, 50, 1, 2, 1.5)
    assert redump_form.progress(done, 100)[1].endswith("2 parts, 50 rows, 1 ghost; 2 keys not there")
    refused = Redumped("c1", NOW, None, None, None, "refused", "It has no key.", 0, 0, 0, None, None)
    assert redump_form.progress(refused, None)[:2] == ("orange", "c1 was refused: It has no key.")
    assert [line["State"] for line in redump_form.past_rows([one, done, refused])] == ["under way", "done", "refused"]
