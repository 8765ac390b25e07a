"""The whole story on a real server, with real Spark and real writers: by mouse, and again without one.

With TIDEMARK_SCREENSHOTS set to a folder, the pages are photographed on the way (`assets/` has the ones that were kept).
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.browser import operating, wizard
from tests.browser.conftest import OpenPage
from tests.browser.hands import HANDS
from tests.browser.story import Consoles, Story, fill_shop
from tests.demo import stop_runners
from tests.live.workload import Workload
from tests.servers import start
from tests.servers.drivers import Drivers


@pytest.fixture(params=[("mouse", "mysql"), ("keyboard", "mariadb")], ids="-".join)
def story(request: pytest.FixtureRequest, tmp_path: Path, open_page: OpenPage, drivers: Drivers) -> Iterator[Story]:
    """A shop whose reader lacks a right, and an empty console before which somebody sits."""
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


@pytest.mark.timeout(1500)
def test_the_whole_story(story: Story) -> None:
    """From the first look at an empty console to a stopped pipeline whose mirror is the source, through all that goes wrong."""
    wizard.connect(story)
    wizard.mend_what_the_preflight_finds(story)
    wizard.pick_tables(story)
    wizard.go_on_in_another_browser(story)
    wizard.change_a_chunk_size(story)
    wizard.say_where_to_and_by_what(story)
    wizard.limit_the_pace(story)
    wizard.launch(story)
    operating.watch_the_copy(story)
    operating.restart_the_console(story)
    operating.lose_the_runner(story)
    operating.watch_it_finish(story)
    operating.read_a_damaged_chunk_again(story)
    operating.ask_the_lake(story)
    operating.pause_and_resume(story)
    operating.change_the_tables(story)
    operating.stop(story)
