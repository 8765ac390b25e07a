"""MariaDB's newest LTS: every type, copied and streamed. `make soak` runs all tests on it."""

from functools import partial

import pytest

from tests.conftest import DatabaseFactory, ServerFactory
from tests.live import test_values
from tests.live.conftest import PipelineFactory
from tests.live.support.both_decoders import assert_both_decoders
from tests.live.support.every_type import statements
from tests.servers import NEWEST, Server


@pytest.mark.parametrize("metadata", ["FULL", "MINIMAL", "NO_LOG"])
def test_both_decoders_agree_with_the_newest_server(
    server_with: ServerFactory, new_database: DatabaseFactory, metadata: str
) -> None:
    """The row decoder, the image decoder and an independent client return the same values for every type."""
    newest = partial(server_with, release=NEWEST)
    test_values.test_both_decoders_agree_with_the_server("mariadb", newest, new_database, metadata)


def test_the_mirror_of_every_type_is_equal(
    newest: Server, new_database: DatabaseFactory, new_pipeline: PipelineFactory
) -> None:
    """Rows of every type, copied and then changed, equal what an independent client reads."""
    test_values.test_the_mirror_of_every_type_is_equal(newest, new_database(newest), new_pipeline)


def test_a_vector_with_an_index_is_read_by_both_decoders(newest: Server, new_database: DatabaseFactory) -> None:
    """The hidden table of a vector index adds nothing to the row images."""
    database = new_database(newest)
    newest.execute(f"CREATE TABLE `{database}`.t (id INT PRIMARY KEY, v VECTOR(2) NOT NULL, n INT, VECTOR INDEX (v))")
    values = ", ".join(f"({n}, VEC_FromText('[{n}, {-n / 3}]'), {n})" for n in range(300))
    assert_both_decoders(newest, database, "t", statements(newest, f"INSERT INTO `{database}`.t VALUES {values}"))
