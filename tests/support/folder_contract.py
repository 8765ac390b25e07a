"""What a folder promises (`engine.store.folder`), whatever store it is in. A test module gives the fixture `folder`."""

import pickle
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.store.folder import Folder
from engine.store.folder_state import stamp_of, sync

RACES, WRITERS = 20, 8


class FolderContract:
    """The tests."""

    def test_a_file_is_read_as_it_was_written(self, folder: Folder) -> None:
        """Whole, in part, and with its size; in folders below too."""
        folder.write("a", b"hello")
        folder.write("below/b", b"")
        assert folder.read("a") == b"hello"
        assert folder.read("a", 1, 3) == b"ell"
        assert (folder / "below").read("b") == b""
        entry = folder.find("a")
        assert entry is not None
        assert (entry.name, entry.size) == ("a", 5)
        assert [one.name for one in folder.below()] == ["a", "below/b"]

    def test_what_is_not_there_is_said_so(self, folder: Folder) -> None:
        """A folder without files has none, and deleting nothing is no error."""
        assert folder.find("a") is None
        assert list(folder.entries()) == []
        assert list(folder.below()) == []
        folder.delete(["a", "b"])
        for read in (lambda: folder.read("a"), lambda: folder.read("a", 0, 1), lambda: folder.open("a").read()):
            with pytest.raises(FileNotFoundError):
                read()

    def test_several_may_delete_the_same_files(self, folder: Folder) -> None:
        """At once: each returns when they are gone."""
        with ThreadPoolExecutor(WRITERS) as pool:
            for _ in range(RACES):
                names = [f"n{number}" for number in range(WRITERS)]
                list(pool.map(lambda name: folder.write(name, b""), names))
                for done in [pool.submit(folder.delete, names) for _ in range(WRITERS)]:
                    done.result()
                assert list(folder.entries()) == []

    def test_the_first_to_create_a_file_keeps_it(self, folder: Folder) -> None:
        """Others get no tag. A retry after a lost answer finds its own content, and gets the tag too."""
        tag = folder.create("a", b"mine")
        assert not folder.create("a", b"another")
        assert folder.create("a", b"mine") == tag
        entry = folder.find("a")
        assert entry is not None
        assert entry.tag == tag
        assert folder.read("a") == b"mine"

    def test_a_file_is_replaced_only_as_it_was_seen(self, folder: Folder) -> None:
        """By its tag, which each replacement changes."""
        folder.write("a", b"1")
        first = folder.find("a")
        assert first is not None
        tag = folder.replace("a", b"22", first.tag)
        second = folder.find("a")
        assert second is not None
        assert second.tag == tag
        assert second.tag != first.tag
        assert not folder.replace("a", b"333", first.tag)
        assert folder.read("a") == b"22"
        folder.delete(["a"])
        assert not folder.replace("a", b"4444", second.tag)
        assert folder.find("a") is None

    def test_entries_are_sorted_and_can_be_continued(self, folder: Folder) -> None:
        """By a prefix, from a name on; folders below are left out."""
        for name in ("b-2", "a-1", "b-1", "c", "b-1x/deep"):
            folder.write(name, b"x")
        assert [one.name for one in folder.entries()] == ["a-1", "b-1", "b-2", "c"]
        assert [one.name for one in folder.entries("b-")] == ["b-1", "b-2"]
        assert [one.name for one in folder.entries("b-1")] == ["b-1"]
        assert [one.name for one in folder.entries("b-", after="b-1")] == ["b-2"]
        assert [one.name for one in folder.entries("b-", after="a")] == ["b-1", "b-2"]
        assert [one.name for one in folder.entries(after="b-2")] == ["c"]
        folder.delete(["b-1", "c", "gone"])
        assert [one.name for one in folder.entries()] == ["a-1", "b-2"]

    @pytest.mark.parametrize("size", [0, 100, 21 << 20])
    def test_an_upload_is_visible_when_it_is_closed(self, folder: Folder, size: int) -> None:
        """Not before, and whole."""
        content = bytes(range(251)) * (size // 251 + 1)
        upload = folder.upload("a")
        for start in range(0, size, 3 << 20):
            upload.write(content[start : min(start + (3 << 20), size)])
        if "://" in folder.url:  # nobody knows the name of a file that is being written
            assert folder.find("a") is None
        upload.close()
        assert upload.closed
        assert folder.read("a") == content[:size]

    @pytest.mark.parametrize("size", [100, 30 << 20])
    def test_an_upload_that_is_given_up_leaves_nothing(self, folder: Folder, size: int) -> None:
        """However much of it was sent."""
        upload = folder.upload("a")
        upload.write(bytes(size))
        upload.discard()
        upload.discard()
        assert upload.closed
        assert folder.find("a") is None
        assert list(folder.below()) == []

    def test_parquet_files_are_written_and_read(self, folder: Folder) -> None:
        """By pyarrow, column by column."""
        rows = pa.table({"id": list(range(100_000)), "text": [str(uuid.uuid4()) for _ in range(100_000)]})
        upload = folder.upload("a.parquet")
        with pq.ParquetWriter(upload.sink, rows.schema) as writer:
            writer.write_table(rows, row_group_size=10_000)
        upload.close()
        with folder.open("a.parquet") as source:
            file = pq.ParquetFile(source)
            assert file.num_row_groups == 10
            assert file.read(columns=["text"]).equals(rows.select(["text"]))

    def test_folders_are_listed_without_what_is_in_them(self, folder: Folder) -> None:
        """One level; files are left out."""
        for name in ("a", "two/b", "one/c", "one/deep/d"):
            folder.write(name, b"x")
        assert folder.folders() == ["one", "two"]
        assert (folder / "one").folders() == ["deep"]
        assert (folder / "three").folders() == []
        assert folder.is_there
        assert not (folder / "three").is_there

    def test_an_upload_that_is_closed_takes_nothing_more(self, folder: Folder) -> None:
        """Nothing is dropped without a word."""
        upload = folder.upload("a")
        upload.write(b"x")
        upload.close()
        with pytest.raises(ValueError, match="closed"):
            upload.write(b"y")
        assert folder.read("a") == b"x"

    def test_files_are_copied(self, folder: Folder) -> None:
        """Into another folder of the store; a second attempt finds them there."""
        for name in ("a", "deep/b"):
            (folder / "one").write(name, b"hello")
        for _ in range(2):
            (folder / "two").copy(["a", "deep/b"], folder / "one")
        (folder / "one").delete(["a", "deep/b"])
        assert [(folder / "two").read(name) for name in ("a", "deep/b")] == [b"hello", b"hello"]
        assert (folder / "two").parent == folder

    def test_a_stamp_shows_changes(self, folder: Folder) -> None:
        """Of files that are made, replaced or removed."""
        stamps = [stamp_of(folder).tag]
        for number, removed in enumerate(("", "", "n0")):
            folder.write(f"n{number}", b"1")
            folder.delete([removed] if removed else [])
            stamps.append(stamp_of(folder).tag)
            assert stamp_of(folder).tag == stamps[-1]
        assert len(set(stamps)) == len(stamps)

    def test_what_is_there_can_be_synced(self, folder: Folder) -> None:
        """A file, and the names of a folder."""
        folder.write("a", b"1")
        sync(folder, "a")
        sync(folder)

    def test_a_folder_can_be_sent_to_a_task(self, folder: Folder) -> None:
        """It is the same folder there."""
        folder.write("a", b"hello")
        sent: Folder = pickle.loads(pickle.dumps(folder))  # noqa: S301 - it was made on the line
        assert sent == folder
        assert sent.read("a") == b"hello"
        assert (sent / "below").url == f"{folder.url}/below"

    def test_one_of_many_writers_wins(self, folder: Folder) -> None:
        """Each race for a new name, and each for a new content, has exactly one winner, whose content is there."""
        with ThreadPoolExecutor(WRITERS) as pool:
            for race in range(RACES):
                barrier = threading.Barrier(WRITERS)
                contents = [uuid.uuid4().bytes for _ in range(WRITERS)]

                def create(content: bytes, name: str = f"n{race}", barrier: threading.Barrier = barrier) -> bool:
                    barrier.wait()
                    return bool(folder.create(name, content))

                won = list(pool.map(create, contents))
                assert sum(won) == 1
                assert folder.read(f"n{race}") == contents[won.index(True)]
