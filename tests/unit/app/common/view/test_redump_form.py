"""The redump form: its arguments, the affected rows, and the progress."""

from dataclasses import replace

import pytest

from app.common.view import redump_form
from app.common.view.redump_form import CountedTable, Request
from engine.history.redumps import Redumped
from tests.unit.app.support import NOW, read


def affected(way: str = "redumped", rows: int | None = 50, keys: int = 0) -> CountedTable:
    """One table of the dry run."""
    return CountedTable("d.t", way, "", 1000, 2000, rows, [("1", "5")], keys)


def test_chunk_numbers_are_parsed() -> None:
    """Numbers and ranges with either dash, each once, in order; anything else is an error."""
    assert redump_form.numbers("7, 3-5,4–6") == [7, 3, 4, 5, 6]
    for wrong in ("", "a", "5-3", "1-99999", "1;2"):
        with pytest.raises(ValueError, match=r"chunk number|range of chunks"):
            redump_form.numbers(wrong)


@pytest.mark.parametrize(
    ("form", "document"),
    [
        (Request("Everything"), {"tables": []}),
        (Request("Table", "d.t"), {"tables": ["d.t"]}),
        (Request("Chunks", "d.t", chunks="3, 7-8"), {"tables": ["d.t"], "chunks": [3, 7, 8]}),
        (Request("Range", "d.t", lower=" 5 "), {"tables": ["d.t"], "range": ["5", None]}),
        (Request("Keys", "d.t", keys="1\n\n 2"), {"tables": ["d.t"], "keys": ["1", "2"]}),
        (Request("Keys", "d.t", keys='["a", 2]'), {"tables": ["d.t"], "keys": [["a", "2"]]}),
    ],
)
def test_the_form_gives_one_document(form: Request, document: dict[str, object]) -> None:
    """The page can do nothing else than the command."""
    assert redump_form.missing(form) == ""
    assert redump_form.document(form) == document


def test_an_incomplete_form_is_not_sent() -> None:
    """It might mean something else than the operator intended."""
    assert "Enter chunk numbers" in redump_form.missing(Request("Chunks", "d.t"))
    assert "not a chunk number" in redump_form.missing(Request("Chunks", "d.t", chunks="x"))
    assert "whole table" in redump_form.missing(Request("Range", "d.t", lower=" "))
    assert "not a JSON list" in redump_form.missing(Request("Keys", "d.t", keys="[1, 2"))
    assert "Enter keys" in redump_form.missing(Request("Keys", "d.t", keys="\n"))


def test_the_affected_rows_are_counted() -> None:
    """Rows, and seconds at the speed of the last copy; unknown values stay unknown."""
    reads = [read(20, 10, 1000, reader="a"), read(20, 10, 1000, reader="b")]
    assert redump_form.pace(reads, "d.t") == 200
    assert redump_form.expected_s([affected()], reads) == 0.25
    assert redump_form.expected_s([affected()], []) is None
    assert redump_form.expected_s([affected(rows=None)], reads) is None
    assert redump_form.sentence([affected()], 0.25) == (
        "1 table, 50 rows of the mirror, less than a second of reading at the speed of the last copy. "
        "The binlog is read meanwhile."
    )
    assert "at most 1,000 rows" in redump_form.sentence([affected(rows=None)], None)
    assert redump_form.sentence([affected("refused")], 1.0) == "Nothing in this selection can be redumped."
    (line,) = redump_form.affected_rows([affected(rows=3, keys=5)])
    assert line["Rows read again"] == "3 of 5 keys"
    assert redump_form.ranges([affected()], "id") == ["1 ≤ id < 5"]


def test_a_redump_is_shown_until_it_is_done() -> None:
    """Parts, rows and ghosts so far, the share if the number of rows is known, and missing keys."""
    one = Redumped("c1", NOW, "3 keys of d.t", "me", None, "under way", None, 2, 50, 1, None, None)
    assert redump_form.progress(one, 100) == (
        "blue",
        "3 keys of d.t: redump running, 2 parts, 50 rows, 1 ghost so far; done when the mirror can be read with them",
        0.5,
    )
    assert redump_form.progress(one, None)[2] is None
    waits = Redumped("c1", NOW, "table d.t", "me", None, "under way", None, 0, 0, 0, None, None)
    assert redump_form.progress(waits, None)[1] == (
        "table d.t: waits until the mirror can be read and the first part is committed"
    )
    assert redump_form.progress(waits, None, ["d.t"])[:2] == (
        "red",
        "table d.t: waits for the privilege to read d.t; 0 parts, 0 rows, 0 ghosts so far",
    )
    assert redump_form.refused_tables(waits, ["d.t", "d.u"], ["d.t", "d.u"]) == ["d.t"]
    assert redump_form.progress(one, 10)[2] == 0.99, "the table has grown meanwhile"
    done = Redumped("c1", NOW, "3 keys of d.t", "me", None, "done", None, 2, 50, 1, 2, 1.5)
    assert redump_form.progress(done, 100)[1].endswith("2 parts, 50 rows, 1 ghost; 2 keys not found")
    begun = Redumped("c1", NOW, "table d.t", "me", None, "done", None, 0, 0, 0, None, 0.5, begun='["d.t"]')
    assert redump_form.progress(begun, 100)[:2] == (
        "blue",
        (
            "table d.t: the resnapshot of d.t has begun; readers get the new rows when it is complete, "
            "the old ones until then"
        ),
    )
    refused = Redumped("c1", NOW, None, None, None, "refused", "It has no key.", 0, 0, 0, None, None)
    assert redump_form.progress(refused, None)[:2] == ("orange", "c1 was refused: It has no key.")
    assert [line["State"] for line in redump_form.past_rows([one, done, refused], lambda _: "verify")] == [
        "under way",
        "done",
        "refused",
    ]


@pytest.mark.parametrize(
    ("lower", "upper", "numeric", "fault"),
    [
        ("5", "10", True, ""),
        ("10", "9", True, "above the lower one"),
        ("-1.50", "-1.5", True, "above the lower one"),
        ("1", "x", True, "Enter numbers"),
        ("", "9", True, ""),
        ("10", "9", False, ""),
        ("b", "a", False, ""),
        ("a", "a", False, "above the lower one"),
    ],
)
def test_an_empty_range_is_refused(lower: str, upper: str, numeric: bool, fault: str) -> None:
    """Before the source is asked, if the bounds are numbers. Only the server knows the order of other keys."""
    request = Request("Range", "d.t", lower=lower, upper=upper)
    found = redump_form.missing(request, numeric=numeric)
    assert (fault in found) if fault else not found


def test_a_redump_names_its_bounds() -> None:
    """Those that were requested; of several columns, all. What cannot be read is left out."""
    one = Redumped("c1", NOW, "a range of d.t", "me", None, "done", None, 2, 50, 1, 2, 1.5)
    for bounds, text in (
        ('["5", "9"]', "a range of d.t: 5 ≤ key < 9"),
        ('[null, ["9", "a"]]', "a range of d.t: key < 9, a"),
        (None, "a range of d.t"),
        ("[1]", "a range of d.t"),
        ("5", "a range of d.t"),
    ):
        assert redump_form.subject(replace(one, range=bounds)) == text


def test_a_redump_names_its_keys_and_leads_to_their_verification() -> None:
    """The first of them; the journal has no more. Journals of older versions have none."""
    one = Redumped("c1", NOW, "2 keys of d.t", "me", None, "done", None, 2, 50, 1, 2, 1.5)
    for keys, text in (
        ('["17", ["de", "5"]]', "2 keys of d.t: 17, (de, 5)"),
        (f'["{"x" * 99}", "2"]', f"2 keys of d.t: {'x' * 60}…"),
        (None, "2 keys of d.t"),
        ("5", "2 keys of d.t"),
    ):
        assert redump_form.subject(replace(one, keys=keys)) == text
    many = replace(one, what="30 keys of d.t", keys='["1", "2"]')
    assert redump_form.subject(many) == "30 keys of d.t: 1, 2…"
    assert redump_form.verify_query(many, "p", ["d.t"]) == {"pipeline": "p", "table": "d.t", "key": "1"}
    assert redump_form.verify_query(one, "p", ["d.t"]) == {"pipeline": "p", "table": "d.t"}
    whole = replace(one, what="table d.t")
    assert redump_form.verify_query(whole, "p", ["d.t"]) == {"pipeline": "p", "table": "d.t"}
    for what in ("everything", "d.a, d.b", "2 keys of d.gone", None):
        assert redump_form.verify_query(replace(one, what=what), "p", ["d.t", "d.a"]) == {"pipeline": "p"}
    rows = redump_form.past_rows([one, replace(one, state="under way")], lambda _: "verify")
    assert [row["Verify"] for row in rows] == ["verify", None]
