"""What each page says of a runner that cannot write: nothing that is untrue of the fault."""

from dataclasses import replace
from typing import get_args

import pytest

from app.common.view.health import Layer, layers
from app.common.view.runner_view import Runner, stands_still
from app.common.view.write_words import unwritten_of
from app.pipelines.view.pipeline_cards import card_of
from app.table.view.table_page import PageFacts, freshness_layer, state_layer
from engine.base.write_causes import DiskFault
from engine.history.table_details import Flow, NewestTableState
from engine.pipeline.state_words import STATES, WRITE_ENDS
from engine.pipeline.write_outage import WriteOutage
from tests.unit.app.support import NOW, ago, lag, runner, table

REMEDIES = {
    "full": "Free space on the disk of /lake/t, or raise the quota.",
    "read_only": "Find out why, and mount it read-write again: /lake/t.",
    "forbidden": "Let the runner's user write to /lake/t.",
}
SPACE = (" full", "space", "room")


def _kept_from(fault: DiskFault) -> Runner:
    outage = WriteOutage("disk", f"{STATES[fault]} (log: x)", REMEDIES[fault], disk_fault=fault)
    return replace(runner("paused"), unwritten=unwritten_of(outage))


def _said(fault: DiskFault) -> dict[str, str]:
    """By page, what it says."""
    waits = _kept_from(fault)
    lights = layers(waits, lag(0.4), [], NOW)
    card = card_of("a", waits, lights, lag(0.4), [], [], [], NOW)
    facts = PageFacts(
        table="d.t",
        runner=waits,
        lag=lag(0.4),
        recent=(),
        state=NewestTableState("streaming", ago(60), None, None),
        progress=table(4, 4, rows=1000),
        counts=(),
        flow=Flow(ago(3), ago(3), ago(2), None, None),
        copied=ago(600),
        no_mirror="",
        paused=False,
        max_merge_delay_s=300.0,
    )
    page = [*_texts(state_layer(facts, NOW)), *_texts(freshness_layer(facts, NOW))]
    return {
        "Pipelines": f"{card.style.label} {card.trouble}",
        "Live": " ".join(text for light in lights for text in _texts(light)),
        "Table": " ".join(page),
        "Verify": stands_still(waits),
    }


def _texts(layer: Layer) -> tuple[str, ...]:
    return layer.headline, *layer.details


@pytest.mark.parametrize("fault", get_args(DiskFault))
def test_every_page_says_what_is_wrong_with_the_disk(fault: DiskFault) -> None:
    """In the words of this fault alone; only a full disk needs room."""
    said = _said(fault)
    assert said["Pipelines"].startswith(STATES[fault])
    assert REMEDIES[fault] in said["Pipelines"]
    assert REMEDIES[fault] in said["Verify"]
    for page in ("Live", "Verify"):
        assert WRITE_ENDS[fault] in said[page], page
    for page, text in said.items():
        assert any(word in f" {text}" for word in SPACE) == (fault == "full"), (page, text)


def test_a_file_of_an_earlier_runner_has_no_fault() -> None:
    """Then its disk is full, as it said."""
    outage = WriteOutage.from_json({"write_outage": {"cause": "disk", "reason": "disk full (log)"}})
    assert outage is not None
    assert outage.fault == "full"
    assert WriteOutage("store_away", "store away (log)").fault == "store_away"
