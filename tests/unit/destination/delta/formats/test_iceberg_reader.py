"""Tables read back as readers of Iceberg see them."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from engine.base import clock
from engine.base.errors import DestinationError
from engine.capture.landing import FormatBehindError
from engine.destination.delta.formats import iceberg_reader
from engine.destination.delta.formats.iceberg_copy import IcebergCopy
from engine.destination.delta.formats.iceberg_reader import IcebergReader
from engine.destination.delta.log.delta_actions import Actions
from engine.destination.delta.log.log_files import commit_name, log_of, newest_version
from engine.destination.delta.read.delta_reader import DeltaReader
from engine.destination.iceberg import snapshot_history
from engine.plan.row_conditions import Compared
from tests.support.delta import path_of, rows_at
from tests.support.iceberg import all_rows
from tests.unit.destination.lake import Lake


class Published:
    """A mirror whose Iceberg table is published by hand."""

    def __init__(self, root: Path, mode: str = "merge_on_read") -> None:
        self.lake = Lake(root, mode)  # type: ignore[arg-type]
        self.lake.copy({key: key for key in range(100)})
        self.folder = self.lake.pair.mirror.lake.folder
        self.copy = IcebergCopy(self.folder, "l", 3, ("id",))
        self.copy.catch_up()

    def reader(self, *, in_step: bool = False) -> IcebergReader:
        """Reads the mirror back."""
        return IcebergReader(DeltaReader(self.folder, self.lake.pair.changes.lake.folder), in_step)

    def change(self, key: int) -> None:
        """Change a row, and merge that."""
        self.lake.change([(key, -key)])


def _now_passed() -> datetime:
    """The time, once it has passed: that of a commit has milliseconds."""
    at = clock.utc_now()
    while clock.utc_now() <= at + timedelta(milliseconds=2):
        pass
    return at


@pytest.fixture
def published(tmp_path: Path) -> Published:
    """A mirror that is merged on read."""
    return Published(tmp_path)


def test_the_newest_snapshot_is_what_readers_of_iceberg_see(published: Published) -> None:
    """Also while the Delta table has more."""
    before = rows_at(published.folder).sort_by("id")
    published.change(7)
    mirror = published.reader().mirror()
    assert mirror is not None
    assert all_rows(mirror).sort_by("id").to_pylist() == before.to_pylist()
    published.copy.catch_up()
    mirror = published.reader().mirror()
    assert mirror is not None
    assert all_rows(mirror).sort_by("id").to_pylist() == rows_at(published.folder).sort_by("id").to_pylist()
    assert mirror.count(Compared("id", "=", pa.scalar(7))) == 1
    assert mirror.transaction("no such application") == -1
    assert [one for one in (published.reader().defect(), published.reader().log_defect()) if one] == []


def test_a_snapshot_in_step_has_what_the_delta_table_has(published: Published, monkeypatch: pytest.MonkeyPatch) -> None:
    """Versions that change nothing are not waited for."""
    monkeypatch.setattr(iceberg_reader, "_PATIENCE_S", 0.0)
    published.change(7)
    with pytest.raises(FormatBehindError):
        published.reader(in_step=True).mirror()
    published.copy.catch_up()
    version = newest_version(published.folder) + 1
    log_of(published.folder).write(commit_name(version), b'{"commitInfo":{"operation":"NOTHING"}}')
    mirror = published.reader(in_step=True).mirror()
    assert mirror is not None
    assert mirror.version < version


def test_the_numbers_of_epochs_without_files_are_those_of_the_delta_table(published: Published) -> None:
    """A table that is copied while it is empty, or a row that comes and goes, is committed without a file."""
    published.lake.pair.mirror.lake.commit(lambda: Actions("WRITE", {"tidemark-l-merge": 77}))
    for in_step in (False, True):
        mirror = published.reader(in_step=in_step).mirror()
        assert mirror is not None
        assert mirror.transaction("tidemark-l-merge") == 77


def test_a_time_between_snapshots_that_have_expired_is_refused(
    published: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last one before it may lack changes. A time of a snapshot can be read."""
    monkeypatch.setattr(snapshot_history, "SPARSE", ((2, 1), (1 << 62, 4)))
    times = list[datetime]()
    for key in range(20):
        published.change(key)
        published.copy.catch_up()
        times.append(_now_passed())
    delta, iceberg = published.reader().delta, published.reader()
    refusals, count = list[str](), 0
    for at in times:
        expected = delta.mirror(at)
        assert expected is not None
        try:
            mirror = iceberg.mirror(at)
        except DestinationError as error:
            refusals.append(error.message)
            continue
        assert mirror is not None
        assert all_rows(mirror).sort_by("id").equals(all_rows(expected).select(mirror.schema.names).sort_by("id"))
        count += 1
    assert count
    assert any("has no snapshot of that time" in one for one in refusals)


def test_an_earlier_time_is_read_from_its_snapshot(published: Published) -> None:
    """And a time before the oldest one is refused: it may have been expired."""
    first = rows_at(published.folder).sort_by("id").to_pylist()
    at = _now_passed()
    published.change(7)
    published.copy.catch_up()
    mirror = published.reader().mirror(at)
    assert mirror is not None
    assert all_rows(mirror).sort_by("id").to_pylist() == first
    with pytest.raises(DestinationError, match="The oldest snapshot of"):
        published.reader().mirror(datetime(2001, 1, 1, tzinfo=UTC))


def test_what_others_commit_is_not_read(published: Published) -> None:
    """The next change of the table publishes it again."""
    table = published.copy.open_again()
    assert table.metadata is not None
    number = int(table.metadata.properties["tidemark.metadata"])
    metadata = path_of(published.copy.folder) / "metadata"
    (metadata / f"v{number + 1}.metadata.json").write_bytes((metadata / f"v{number}.metadata.json").read_bytes())
    with pytest.raises(DestinationError, match="Another program has written"):
        published.reader().mirror()
    assert "Another program" in published.reader().defect()
    published.change(7)
    published.copy.catch_up()
    mirror = published.reader(in_step=True).mirror()
    assert mirror is not None
    assert mirror.size()[0] == 100


def test_metadata_that_is_gone_is_no_empty_table(published: Published) -> None:
    """Its reader says what cannot be read."""
    published.change(7)
    published.copy.catch_up()
    for path in (path_of(published.copy.folder) / "metadata").glob("*.avro"):
        path.unlink()
    with pytest.raises(published.reader().unreadable):
        published.reader().mirror()
    assert published.reader().defect()


def test_a_vector_that_is_gone_brings_no_deleted_row_back(published: Published) -> None:
    """It is read when its file is."""
    published.change(7)
    published.copy.catch_up()
    mirror = published.reader().mirror()
    assert mirror is not None
    for path in (path_of(published.copy.folder) / "metadata").glob("*.puffin"):
        path.unlink()
    with pytest.raises(FileNotFoundError, match="puffin"):
        all_rows(mirror)
