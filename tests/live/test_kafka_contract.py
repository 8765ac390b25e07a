"""The contract of destinations, on a broker of Kafka (`tests.unit.destination.test_contract`)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.base.errors import DestinationError, PipelineHeldError
from engine.destination.destination_protocol import CHANGES, EpochEnd
from engine.ledger.state import Owner
from tests.servers.kafka_broker import Broker, kafka_broker
from tests.unit.destination.support import BROKER, OLD, PLAN, Kind, World, publish_story, story, taken, world_files
from tests.unit.destination.test_contract import (
    changes,
    table_rows,
    test_a_column_comes_and_another_one_goes,
    test_a_failed_table_fails_alone_and_stays_as_it_was,
    test_a_failed_table_is_repaired_by_a_resnapshot,
    test_a_resnapshot_replaces_the_table_whenever_the_publisher_is_killed,
    test_an_epoch_that_is_applied_again_changes_nothing,
    test_what_a_destination_cannot_do_is_absent,
    test_what_is_not_published_is_not_seen,
)

__all__ = [
    "test_a_column_comes_and_another_one_goes",
    "test_a_failed_table_fails_alone_and_stays_as_it_was",
    "test_a_failed_table_is_repaired_by_a_resnapshot",
    "test_a_resnapshot_replaces_the_table_whenever_the_publisher_is_killed",
    "test_an_epoch_that_is_applied_again_changes_nothing",
    "test_what_a_destination_cannot_do_is_absent",
    "test_what_is_not_published_is_not_seen",
]


@pytest.fixture(scope="module", autouse=True)
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker for the tests of this file."""
    with pytest.MonkeyPatch.context() as patch, kafka_broker(tmp_path_factory.mktemp("kafka")) as running:
        patch.setenv(BROKER, running.address)
        yield running


@pytest.fixture
def kind() -> Kind:
    """This destination."""
    return "kafka"


def test_an_earlier_term_sends_nothing_more(tmp_path: Path) -> None:
    """What it has in its open transaction is never seen, and what it publishes later is refused."""
    story(world := World(tmp_path, kind="kafka"))
    publish_story(world, tmp_path, ())
    earlier = taken(world, "a", 1)
    table = earlier.table(Owner("L"), OLD, PLAN)
    table.open(must_exist=True)
    before = changes("kafka", tmp_path)
    table.append(CHANGES, 4, world_files(world.changes(OLD, [("+I", 9, 9)])))
    taken(world, "b", 2)
    with pytest.raises(PipelineHeldError):
        earlier.publish(EpochEnd(4, "b:1", ""))
    with pytest.raises(PipelineHeldError):
        earlier.terms.check()
    assert changes("kafka", tmp_path) == before


def test_a_runner_that_is_late_to_take_its_term_does_not_end_the_later_one(tmp_path: Path) -> None:
    """It fences the later one for a moment; that one sends its epoch again."""
    story(world := World(tmp_path, kind="kafka"))
    publish_story(world, tmp_path, ())
    later = taken(world, "b", 2)
    table = later.table(Owner("L"), OLD, PLAN)
    table.open(must_exist=True)
    table.append(CHANGES, 4, world_files(world.changes(OLD, [("+I", 9, 9)])))
    with pytest.raises(PipelineHeldError):
        taken(world, "a", 1)
    later.publish(EpochEnd(4, "b:1", ""))
    assert changes("kafka", tmp_path)[-1] == ("+I", 9, 9)


def test_a_topic_that_is_gone_is_not_begun_again_in_silence(tmp_path: Path) -> None:
    """Nor is another one of its name taken for it."""
    story(world := World(tmp_path, kind="kafka"))
    publish_story(world, tmp_path, ())
    destination = world.destination()
    topics = destination._topics  # type: ignore[attr-defined]
    topic = f"{tmp_path.name}.d.t"
    topics.delete(topic)
    table = world.destination().table(Owner("L"), OLD, PLAN)
    assert "is gone" in table.read_state().fault
    topics.create_for_table(topic)
    table = world.destination().table(Owner("L"), OLD, PLAN)
    assert "was deleted and created again" in table.read_state().fault
    with pytest.raises(DestinationError, match="deleted and created again"):
        table.open(must_exist=True)


def test_a_table_that_was_dropped_leaves_nothing(tmp_path: Path) -> None:
    """Its topic goes; it can join again."""
    story(world := World(tmp_path, kind="kafka"))
    publish_story(world, tmp_path, ())
    destination = taken(world, "a", 1)
    destination.table(Owner("L"), OLD, PLAN).drop()
    again = world.destination().table(Owner("L"), OLD, PLAN)
    assert not again.is_there
    again.check(None, OLD)
    destination = taken(world, "b", 2)
    again = destination.table(Owner("L"), OLD, PLAN)
    assert again.open(must_exist=False).applied_epochs[CHANGES] == -1
    assert again.append(CHANGES, 9, world_files(world.changes(OLD, [("+I", 7, 7)])))
    destination.publish(EpochEnd(9, "b:1", ""))
    assert table_rows("kafka", tmp_path) == [(7, 7)]
