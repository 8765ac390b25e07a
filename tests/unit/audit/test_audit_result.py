"""The result of an audit: its verdict, its text and its JSON."""

import json

import pytest

from engine.audit.audit_result import AuditResult, ImageDifference, TableAudit

EQUAL = TableAudit(
    "d.t", 6, 2, "b.000001:4", "b.000001:900", 3, not_compared={"year_zero": 2}, notes=("copied until there",)
)
DAMAGED = TableAudit("d.u", 5, 1, "b.000001:4", "b.000001:900", 1, 30, {"different": 30}, 7)
COPYING = TableAudit("d.v", excluded="it is not completely copied yet")
DIFFERENCE = ImageDifference("d.u", "different", "b.000001:500", ["1", "x"], ["v"], {"v": "2"}, {"v": "3"})


@pytest.mark.parametrize(
    ("tables", "verdict"),
    [((EQUAL, COPYING), "equal"), ((EQUAL, DAMAGED), "different"), ((COPYING,), "nothing compared")],
)
def test_the_verdict(tables: tuple[TableAudit, ...], verdict: str) -> None:
    """Equal only if something was compared."""
    assert AuditResult(tables, [], 1.5, "id").verdict == verdict


def test_the_text() -> None:
    """Each table with its range and what was not compared; then some differences, and how many more."""
    lines = AuditResult([EQUAL, DAMAGED, COPYING], [DIFFERENCE] * 25, 1.5, "id").lines()
    assert lines[:3] == [
        "d.t: 6 images of 2 transactions from b.000001:4 to b.000001:900, 0 differences",
        "  copied until there",
        "  not compared: 2 × YEAR 0",
    ]
    assert "  7 redumped rows are not in the binlog" in lines
    assert "d.v: not compared: it is not completely copied yet" in lines
    assert lines.count("d.u at b.000001:500: different, key (1, x), columns v") == 20
    assert lines[-2:] == ["and 10 more; --report lists them", "different: 11 images, 30 differences, 1.5 s"]


def test_the_json() -> None:
    """With the totals, and the proof of what was not compared."""
    result = AuditResult((EQUAL, DAMAGED), (DIFFERENCE,), 1.5, "id")
    found = json.loads(json.dumps(result.as_dict()))
    assert json.loads(json.dumps(AuditResult.from_json(found).as_dict())) == found
    assert (found["verdict"], found["images"], found["differences_total"]) == ("different", 11, 30)
    assert found["limits"]["year_zero"]["library"] == "1900"
    assert found["differences"][0]["change_log"] == {"v": "2"}
