"""The archive of Spark's classes is used only where it is whole, and only its owner can change it."""

import os
import subprocess
from pathlib import Path

import pytest

from engine.spark import class_archive
from engine.spark.class_archive import VARIABLE, archive_options, forget_archive, make_in_background


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Spark with one jar, a Java, and a cache."""
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    (tmp_path / "spark" / "jars" / "spark-core.jar").write_bytes(b"classes")
    (tmp_path / "java" / "bin").mkdir(parents=True)
    (tmp_path / "java" / "bin" / "java").write_bytes(b"java")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(VARIABLE, raising=False)
    return tmp_path / "spark"


def archive_of(home: Path, content: bytes = b"archive") -> Path:
    """An archive as `make` leaves it."""
    folder = class_archive._folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    archive = folder / f"{class_archive._digest(home)}-{len(content)}.jsa"
    archive.write_bytes(content)
    archive.chmod(0o600)
    return archive


def test_an_archive_is_used_until_it_is_switched_off(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Java gets its path, verifies it, and logs nothing about it."""
    assert archive_options(home) == ""
    archive = archive_of(home)
    assert f"-XX:SharedArchiveFile={archive} -XX:+VerifySharedSpaces" in archive_options(home)
    monkeypatch.setenv(VARIABLE, "off")
    assert archive_options(home) == ""


def test_a_truncated_archive_is_not_used(home: Path) -> None:
    """A JVM that maps one is killed by the system."""
    os.truncate(archive_of(home), 3)
    assert archive_options(home) == ""


@pytest.mark.parametrize("where", ["archive", "folder"])
def test_an_archive_that_others_can_write_is_not_used(home: Path, where: str) -> None:
    """It contains code."""
    archive = archive_of(home)
    (archive if where == "archive" else archive.parent).chmod(0o777)
    assert archive_options(home) == ""


@pytest.mark.parametrize("changed", ["spark/jars/spark-core.jar", "spark/jars/another.jar", "java/bin/java"])
def test_another_java_or_another_spark_has_an_archive_of_its_own(home: Path, changed: str) -> None:
    """By the files' names, sizes and times."""
    archive_of(home)
    (home.parent / changed).write_bytes(b"another version")
    assert archive_options(home) == ""


def test_without_java_there_is_none(home: Path) -> None:
    """Spark says what is missing."""
    archive_of(home)
    (home.parent / "java" / "bin" / "java").unlink()
    assert archive_options(home) == ""
    forget_archive(home)
    make_in_background(home)


def test_an_archive_with_which_java_ended_is_forgotten(home: Path) -> None:
    """It would end the next JVM too."""
    archive = archive_of(home)
    forget_archive(home)
    assert not archive.exists()


def test_nothing_is_made_where_there_is_one_or_none_is_wanted(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor where a second JVM could take the memory of the run."""
    begun: list[object] = []
    monkeypatch.setattr(subprocess, "Popen", lambda *words, **_: begun.append(words))
    monkeypatch.setattr(class_archive, "_available_bytes", lambda: 4 << 30)
    make_in_background(home)
    assert len(begun) == 1
    monkeypatch.setattr(class_archive, "_available_bytes", lambda: 1 << 30)
    make_in_background(home)
    monkeypatch.setattr(class_archive, "_available_bytes", lambda: 4 << 30)
    monkeypatch.setenv(VARIABLE, "off")
    make_in_background(home)
    monkeypatch.delenv(VARIABLE)
    archive_of(home)
    make_in_background(home)
    assert len(begun) == 1


def test_two_processes_do_not_make_one_at_once(home: Path) -> None:
    """The second finds the lock, and leaves it to the first."""
    folder = class_archive._folder()
    folder.mkdir(parents=True)
    with class_archive._alone(folder / "lock") as first, class_archive._alone(folder / "lock") as second:
        assert (first, second) == (True, False)
        assert class_archive.make(home) is None
