"""The documentation has an entry for every kind of alert."""

import re
from pathlib import Path

import engine.alerting
from engine.journal.alert_kinds import ALERTS, alert_title, remedy
from engine.spec.alert_settings import CRITICAL

PAGE = Path(__file__).parents[3] / "docs" / "operations.md"


def test_every_alert_is_documented() -> None:
    """In the table of alerts, with when it fires and clears, and what to do."""
    section = PAGE.read_text(encoding="utf-8").partition("## Alerts")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| `")]
    assert all(len(row) == 4 and all(row) for row in rows)
    assert [kind for row in rows for kind in re.findall(r"`(\w+)`", row[0])] == list(ALERTS)


def test_every_alert_has_its_line_in_the_room() -> None:
    """With the rule that raises and clears it."""
    paragraphs = (engine.alerting.__doc__ or "").split("\n\n")
    lines = re.findall(r"^(\w+(?:, \w+)*) ", paragraphs[-1], re.MULTILINE)
    assert {kind for line in lines for kind in line.split(", ")} == set(ALERTS)


def test_the_page_lists_the_critical_alerts() -> None:
    """All others are warnings."""
    listed = PAGE.read_text(encoding="utf-8").partition("* **Severities.**")[2].partition("All others")[0]
    assert set(re.findall(r"`(\w+)`", listed.partition(": ")[2])) == CRITICAL


def test_a_remedy_names_the_table() -> None:
    """An unknown kind, of another version, has no remedy and is its own title."""
    assert "resnapshot it: tidemark redump SPEC --table d.t. " in remedy("table_stopped", "d.t")
    assert (remedy("odd"), alert_title("odd")) == ("", "odd")
