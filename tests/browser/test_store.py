"""Pipelines, Live and Table say that the destination's store is away, or refuses the credentials, and who must act."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path

import pytest
from playwright.sync_api import expect

from engine.base import clock
from engine.base.store_errors import StoreAccessError, StoreAwayError
from engine.base.write_causes import WRITE_ALERTS, write_cause
from engine.pipeline.full_disks import fault_of
from engine.pipeline.write_outage import WriteOutage
from tests.browser.conftest import OpenPage, healthy
from tests.support.simulation import SimulatedTable, Simulation, real_now
from tests.tools.demo import console

AWAY = StoreAwayError("The store does not answer: s3://lake/shop: error sending request")
REFUSED = StoreAccessError("The store refuses the credentials: s3://lake/bills: 403 Forbidden: ExpiredToken")
ORANGE, RED = "orange", "red"


def lose_store(pipeline: Simulation, error: OSError) -> Simulation:
    """From now on its store cannot be used; five tries have failed within 48 seconds."""
    fault, cause, since = fault_of(error), write_cause(error), clock.utc_text(pipeline.now)
    outage = WriteOutage(cause, f"{fault.state} (log: {error})", fault.remedy, since, 5)
    for attempt in range(1, 6):
        more = {"cause": cause, "message": str(error), "hint": fault.remedy, "since": since}
        pipeline.write("store.away", attempt=attempt, retry_in_s=min(2.0**attempt, 10.0), **more)
    pipeline.state, pipeline.write_outage = "paused", asdict(outage)
    return pipeline.raise_alert(WRITE_ALERTS[cause], message=str(error), since=since, hint=fault.remedy)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A console on two pipelines: the store of one is away, that of the other refuses the credentials."""
    home: Path = tmp_path_factory.mktemp("home")
    with ExitStack() as stack:
        for name, error in (("shop", AWAY), ("bills", REFUSED)):
            tables = [SimulatedTable(f"{name}.orders", 30_000, 3)]
            one = Simulation(home / name, tables, start=real_now() - timedelta(seconds=60)).advance(55)
            stack.enter_context(lose_store(one, error).play())
        yield stack.enter_context(console(home))


@pytest.mark.parametrize(
    ("name", "words", "colour", "waits", "do"),
    [
        ("shop", "store away", ORANGE, "Waits for the store", "Nobody must act"),
        ("bills", "credentials refused", RED, "Waits for credentials", "Renew the credentials"),
    ],
)
def test_a_store_is_shown_with_who_must_act(
    url: str, open_page: OpenPage, name: str, words: str, colour: str, waits: str, do: str
) -> None:
    """Orange while the runner retries; red if an operator must renew the credentials."""
    page = open_page(url)
    expect(page.get_by_text(f"The pipeline waits: {words}").first).to_be_visible()
    expect(page.get_by_text("Who acts: runner retries")).to_be_visible()
    expect(page.get_by_text("Who acts: you")).to_be_visible()
    healthy(page)
    page = open_page(f"{url}/live?pipeline={name}")
    main = page.get_by_test_id("stMain")
    expect(main.get_by_text(f"State: {words};")).to_be_visible()
    expect(main.get_by_text(waits)).to_be_visible()
    panel = page.get_by_test_id("stAlert").filter(has_text="no time limit")
    expect(panel).to_contain_text(do)
    kind = "stAlertContentWarning" if colour == ORANGE else "stAlertContentError"
    expect(panel.get_by_test_id(kind)).to_be_visible()
    healthy(page)
