"""The timeline as a figure: rows with something to show, one time axis, and thresholds in reach."""

from app.common.view.figure import in_light
from app.live.view.curves import curves_of, thresholds
from app.live.view.run_timeline import COLOURS, Instant, Span
from app.live.view.timeline_figure import alt, event_of, figure
from tests.unit.app.support import NOW, ago, lag, moment

PAUSED = moment(50, "run.state", "paused")
SPANS = [
    Span("Phase", ago(100), ago(50), "streaming", moment(100, "run.connected")),
    Span("Pauses", ago(50), ago(20), "paused: 100 % <b>full</b>", PAUSED),
]
MARKS = [Instant("Schema changes", ago(30), "d.t evolved", moment(30, "source.event", "evolved"))]


def curves(seconds: float) -> list:  # type: ignore[type-arg]
    """The curves of one reading."""
    return curves_of([], [], [lag(seconds, age=10)], (ago(100), NOW), [], 2000)


def test_empty_rows_collapse() -> None:
    """Only rows and curves with something to show take room."""
    full = figure(SPANS, MARKS, curves(1), [], ago(100), NOW)["layout"]
    assert full["yaxis"]["ticktext"] == ["Phase", "Pauses", "Schema changes"]
    assert {name for name in full if name.startswith("yaxis")} == {"yaxis", "yaxis2", "yaxis3"}
    less = figure(SPANS[:1], [], [], [], ago(100), NOW)["layout"]
    assert less["yaxis"]["ticktext"] == ["Phase"]
    assert less["height"] < full["height"]
    assert figure([], [], [], [], ago(100), NOW)["layout"]["yaxis"]["visible"] is False


def test_one_crosshair_runs_through_all_rows() -> None:
    """The rows do not overlap, share the time axis, and show their values together."""
    layout = figure(SPANS, MARKS, curves(1), [], ago(100), NOW)["layout"]
    assert (layout["hovermode"], layout["hoversubplots"], layout["xaxis"]["spikemode"]) == ("x", "axis", "across")
    domains = [layout[name]["domain"] for name in ("yaxis", "yaxis2", "yaxis3")]
    assert all(0 <= low < high <= 1 for low, high in domains)
    assert domains[0][0] >= domains[1][1] > domains[1][0] > domains[2][1]


def test_a_threshold_is_drawn_where_the_curve_comes_near() -> None:
    """One far above would flatten it."""
    levels = thresholds(60.0, None)

    def drawn(seconds: float) -> list[str]:
        shapes = figure([], [], curves(seconds), levels, ago(100), NOW)["layout"]["shapes"]
        return [shape["label"]["text"] for shape in shapes if "label" in shape]

    assert drawn(0.5) == []
    assert drawn(8) == ["keeping up below 10 s"]
    assert drawn(70) == ["keeping up below 10 s", "alert above 1 min"]


def test_names_do_not_cover_each_other() -> None:
    """A shorter span is drawn over a longer one, whose name it may hide. Thresholds may be near each other."""
    alerts = [
        Span("Alerts", ago(100), NOW, "Table stopped", moment(100, "alert.raised")),
        Span("Alerts", ago(90), ago(10), "Mirror behind", moment(90, "alert.raised")),
        Span("Alerts", ago(30), NOW, "Lag", moment(30, "alert.raised")),
    ]
    (bars, *_) = figure(alerts, [], [], [], ago(100), NOW)["data"]
    assert bars["text"] == ["", "Mirror behind", "Lag"]
    near = thresholds(12.0, None)
    shapes = figure([], [], curves(11), near, ago(100), NOW)["layout"]["shapes"]
    places = [shape["label"]["textposition"] for shape in shapes if "label" in shape]
    assert places == ["end", "middle"]


def test_bars_and_marks_lead_to_their_events() -> None:
    """A point of a curve leads to none. Names from the database are no markup."""
    data = figure(SPANS, MARKS, curves(1), [], ago(100), NOW)["data"]
    phase, pause, mark, line, _ = data
    assert event_of({"customdata": phase["customdata"][0]}) == "r:900"
    assert event_of({"customdata": pause["customdata"][0]}) == "r:950"
    assert event_of({"customdata": mark["customdata"][0]}) == "r:970"
    assert event_of({"x": line["x"][0]}) is None
    assert "&lt;b>full" in pause["customdata"][0][1]


def test_a_bar_that_is_too_narrow_has_no_text() -> None:
    """Plotly would shrink it until nobody can read it."""
    spans = [Span("Phase", ago(100), ago(99), "catching up"), Span("Phase", ago(99), NOW, "streaming")]
    (bars,) = figure(spans, [], [], [], ago(100), NOW)["data"]
    assert bars["text"] == ["streaming", ""]


def test_the_figure_has_a_sentence() -> None:
    """For screen readers."""
    assert (
        alt(SPANS, "Lag over time: now 1.0 s")
        == "Timeline: streaming for 50 s, paused for 30 s. Lag over time: now 1.0 s"
    )


def test_names_can_be_read_in_both_themes() -> None:
    """Dark text on each bar has the contrast of WCAG AA, whatever is behind the figure."""

    def light(colour: str) -> float:
        parts = (int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5))
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    spans = [Span("Phase", ago(100 - n), ago(99 - n), name) for n, name in enumerate(COLOURS)]
    (bars,) = figure(spans, [], [], [], ago(100), NOW)["data"]
    assert bars["constraintext"] == "none", "plotly would shrink the text"
    text = light(bars["textfont"]["color"])
    assert all((light(colour) + 0.05) / (text + 0.05) >= 4.5 for colour in bars["marker"]["color"])


def test_labels_can_be_read_in_the_light_theme() -> None:
    """Those of every axis; the figure keeps everything else."""
    drawn = figure(SPANS, MARKS, curves(1), [], ago(100), NOW)
    lit = in_light(drawn)["layout"]
    for name in ("xaxis", "yaxis", "yaxis2", "yaxis3"):
        assert lit[name]["tickfont"] == lit[name]["title"]["font"] == lit["font"]
    assert lit["yaxis2"]["title"]["text"] == drawn["layout"]["yaxis2"]["title"]["text"]
    assert lit["height"] == drawn["layout"]["height"]
