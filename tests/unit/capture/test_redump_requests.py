"""The arguments of a redump: what each form requests, and what is refused."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import SpecError
from engine.capture.redump_requests import Redump, arguments_from, arguments_of, redump_from
from engine.decode.schema import Column, Index, Table
from engine.ledger.state import TableState
from engine.plan.chunks import Plan, Range
from engine.plan.coverage import unsplit_table

ONE = Table("d", "one", (Column("id", "int", nullable=False),), ("id",), indexes=(Index("PRIMARY", ("id",)),))
TWO = Table(
    "d",
    "two",
    (Column("a", "int", nullable=False), Column("b", "int", nullable=False)),
    ("a", "b"),
    indexes=(Index("PRIMARY", ("a", "b")),),
)


def _state(table: Table, *key: str) -> TableState:
    plan = Plan(table.full_name, 9, 0, key, "PRIMARY", "0", "9", None, "uneven", "", 3, 3)
    return TableState(table.as_dict(), plan.as_dict(), unsplit_table(plan))


TABLES = {"d.one": _state(ONE, "id"), "d.two": _state(TWO, "a", "b"), "d.whole": _state(ONE)}


@pytest.fixture
def journals(tmp_path: Path) -> Path:
    """Two runs: a copy, and another copy of table d.one, whose chunk 3 alone was read."""
    journalled: list[list[tuple[Any, ...]]] = [
        [("table.planned", "d.one", None, None, None), ("chunk.finished", "d.one", 3, "10", "20")],
        [
            ("chunk.finished", "d.two", 0, None, '["5", "6"]'),
            ("table.planned", "d.one", None, None, None),
            ("chunk.finished", "d.one", 4, "7", None),
        ],
    ]
    for n, lines in enumerate(journalled):
        events = [dict(zip(("event", "table", "chunk", "lower", "upper"), line, strict=True)) for line in lines]
        (tmp_path / f"{n}.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events) + '{"torn')
    return tmp_path


def _redump(journals: Path, **arguments: Any) -> Redump:
    return redump_from("c1", Path("c1.json"), {"tables": ["d.one"], **arguments}, TABLES, journals)


def test_every_form(journals: Path) -> None:
    """Everything, tables, chunks of the last copy, a range, keys with one column and with several."""
    assert _redump(journals, tables=[]).tables == ()
    assert _redump(journals).is_whole_table
    assert _redump(journals, chunks=[4]).ranges == (Range(("7",), None),)
    assert _redump(journals, tables=["d.two"], chunks=[0]).ranges == (Range(None, ("5", "6")),)
    assert _redump(journals, range=[None, "20"]).ranges == (Range(None, ("20",)),)
    assert _redump(journals, tables=["d.two"], range=['["5", "6"]', ["7"]]).ranges == (Range(("5", "6"), ("7",)),)
    assert _redump(journals, keys=[5, "6", "5"]).keys == (("5",), ("6",))
    assert _redump(journals, tables=["d.two"], keys=[[1, "2"]]).keys == (("1", "2"),)


def test_a_request_names_its_parts(journals: Path) -> None:
    """Chunks by number; bounds and keys are values of rows, which the text does not have."""
    assert _redump(journals, chunks=[4]).describe() == "chunk 4 of d.one"
    assert _redump(journals, range=[None, "20"]).describe() == "a range of d.one"
    assert _redump(journals, keys=[5, "6"]).describe() == "2 keys of d.one"
    assert _redump(journals, tables=[]).describe() == "everything"


@pytest.mark.parametrize(
    "arguments",
    [
        {"tables": "d.one"},
        {"tables": ["d.none"]},
        {"tables": ["d.one", "d.two"], "chunks": [4]},
        {"chunks": [4], "keys": ["1"]},
        {"chunks": [3]},
        {"chunks": ["4"]},
        {"chunks": []},
        {"range": ["1"]},
        {"range": "12"},
        {"keys": []},
        {"keys": ["x"]},
        {"tables": ["d.two"], "keys": ["1"]},
        {"tables": ["d.two"], "range": ["[1", None]},
        {"tables": ["d.whole"], "range": [None, "4"]},
    ],
)
def test_what_cannot_be_carried_out_is_refused(journals: Path, arguments: dict[str, Any]) -> None:
    """With the fault: an unknown table, a chunk of an earlier copy, an invalid list, no key."""
    with pytest.raises(SpecError) as raised:
        _redump(journals, **arguments)
    assert raised.value.detail == "Nothing was read again."


def test_the_words_of_a_command_line(tmp_path: Path) -> None:
    """Keys separated by commas, as JSON lists, or in a file, one per line."""
    assert arguments_of(["d.one"], "3,7", None, "") == {"tables": ["d.one"], "chunks": [3, 7]}
    assert arguments_of(["d.one"], "", ("", "z"), "")["range"] == [None, "z"]
    assert arguments_of(["d.one"], "", None, "k1,k2")["keys"] == ["k1", "k2"]
    assert arguments_of(["d.two"], "", None, '[1, "a"], [2, "b"]')["keys"] == [[1, "a"], [2, "b"]]
    (tmp_path / "keys").write_text('a,b\n["1", "2"]\n\n')
    assert arguments_of(["d.one"], "", None, str(tmp_path / "keys"))["keys"] == ["a,b", ["1", "2"]]
    for chunk, keys in (("three", ""), ("", "[1, 2"), ("", "[oops]")):
        with pytest.raises(SpecError):
            arguments_of(["d.one"], chunk, None, keys)


def test_a_request_is_one_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a file or from standard input; what is no JSON object is refused."""
    document = tmp_path / "request.json"
    document.write_text('{"tables": ["d.one"], "keys": ["17"]}')
    expected = {"tables": ["d.one"], "keys": ["17"]}
    assert arguments_from(str(document)) == expected
    monkeypatch.setattr("sys.stdin", io.StringIO(document.read_text()))
    assert arguments_from("-") == expected
    for wrong in ("[1]", "{", '"all"'):
        document.write_text(wrong)
        with pytest.raises(SpecError, match=r"is not (a )?JSON"):
            arguments_from(str(document))
    with pytest.raises(SpecError, match="cannot be read"):
        arguments_from(str(tmp_path / "nothing.json"))
