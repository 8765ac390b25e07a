"""The whole story on a real server, with Spark and writers: by mouse, and in a soak test by keyboard too.

If TIDEMARK_SCREENSHOTS is a folder, screenshots are saved there (`assets/` has some of them).
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.browser import operating, wizard
from tests.browser.conftest import OpenPage
from tests.browser.hands import HANDS
from tests.browser.story import Consoles, Story, fill_shop
from tests.live.support.workload import Workload
from tests.servers import start
from tests.servers.drivers import Drivers
from tests.support.depth import depth
from tests.tools.demo import stop_runners

MOUSE, KEYBOARD = ("mouse", "mysql"), ("keyboard", "mariadb")


@pytest.fixture(params=depth([MOUSE], [MOUSE, KEYBOARD]), ids="-".join)
def story(request: pytest.FixtureRequest, tmp_path: Path, open_page: OpenPage, drivers: Drivers) -> Iterator[Story]:
    """A shop with a user who lacks privileges, an empty console, and a hand that operates it."""
    way, flavor = request.param
    with ExitStack() as stack:
        server = stack.enter_context(start(flavor))
        fill_shop(server)
        load = Workload(server, "shop", "orders", seed=1, rate=100.0, connections=2)
        stack.callback(load.stop)
        consoles = Consoles(tmp_path, drivers)
        stack.callback(consoles.give_back)
        stack.callback(stop_runners, tmp_path)
        stack.callback(consoles.end)
        address = consoles.open()
        hand = HANDS[way](open_page(address))
        yield Story(way, hand, server, load, tmp_path, consoles, open_page)


@pytest.mark.soak
@pytest.mark.timeout(1500)
def test_the_whole_story(story: Story) -> None:
    """From an empty console, through several failures, to a stopped pipeline whose mirror equals the source.

    By keyboard, console and runner are restarted in a soak test only.
    """
    wizard.connect(story)
    wizard.fix_preflight_failures(story)
    wizard.pick_tables(story)
    wizard.continue_in_another_browser(story)
    wizard.change_a_chunk_size(story)
    wizard.choose_destination_and_spark(story)
    wizard.limit_the_rate(story)
    wizard.launch(story)
    operating.watch_the_copy(story)
    if depth(story.way == "mouse", soak=True):
        operating.restart_the_console(story)
        operating.lose_the_runner(story)
    operating.watch_it_finish(story)
    operating.redump_a_damaged_chunk(story)
    operating.query_the_lake(story)
    operating.pause_and_resume(story)
    operating.maintain(story)
    operating.change_the_tables(story)
    operating.stop(story)
