"""A report proves that nobody has changed it."""

import json
from pathlib import Path

from engine.pipeline.verification_records import Difference
from engine.spec.settings import parse
from engine.verify.report import check_report, report_of, write_report
from engine.verify.verdicts import PartResult, TableResult

SPEC = parse(
    'name = "shop"\n[source]\nhost = "h"\nuser = "u"\ntables = ["d.*"]\n[sink]\npath = "lake"\n', Path("shop.toml")
)
RESULT = TableResult(
    "d.<t>",
    "diverged",
    position="b.1:4",
    differences=(Difference("different", ("</script>&amp;",), ("v",), "a cause"),),
    differences_total=1,
    parts=(PartResult(0, None, None, 3, 1),),
)


def test_both_forms_are_checked(tmp_path: Path) -> None:
    """A changed verdict, key or number does not fit the checksum any more."""
    report = report_of(SPEC, [RESULT, TableResult("d.u", "unverifiable", "it has no key")], "2026-01-01T00:00:00Z")
    assert report["left_out"] == [{"table": "d.u", "why": "it has no key"}]
    for name in ("report.json", "report.html"):
        write_report(tmp_path / name, report)
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert check_report(text)
        assert not check_report(text.replace("b.1:4", "b.1:5"))
    assert json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["verdict"] == "diverged"
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "d.&lt;t&gt;" in page
    assert page.count("</script>") == 1
