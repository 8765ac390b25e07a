"""The lag as a small picture."""

import re
from base64 import b64decode

from app.pipelines.view.sparkline import LagCurve, picture, sentence
from tests.unit.app.support import NOW, ago


def path(points: LagCurve) -> str:
    """The line of the picture."""
    kind, _, data = picture(points, ago(120), NOW, 30_000).partition(",")
    assert kind == "data:image/svg+xml;base64"
    lines: list[str] = re.findall(r'<path d="([^"]*)"', b64decode(data).decode())
    return lines[1]


def test_a_small_lag_stays_at_the_bottom() -> None:
    """The scale never ends below the lag of keeping up, so noise does not look like a problem."""
    assert path([(ago(120), 0.0), (ago(90), 1.0)]) == "M0.0 23.0h.5L30.0 20.8"
    assert path([(ago(120), 0.0), (ago(90), 100.0)]) == "M0.0 23.0h.5L30.0 1.0"


def test_an_interval_without_a_reading_is_a_gap() -> None:
    """No reading is not 0."""
    assert path([(ago(120), 5.0), (ago(60), 5.0), (ago(30), None)]).count("M") == 2
    assert picture([(ago(30), None)], ago(120), NOW, 30_000) == ""


def test_the_picture_has_a_sentence() -> None:
    """For screen readers."""
    assert sentence([(ago(90), 40.0), (ago(60), None)], "30 min") == "Lag of the last 30 min: at most 40 s"
    assert sentence([], "30 min") == "Lag of the last 30 min: not measured"
