"""Jars from Maven, through the Ivy that PySpark has, once per user."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pyspark

from tests.servers.cache import cache_folder, locked


def spark_jars(pattern: str) -> list[Path]:
    """The jars of PySpark with a name."""
    return sorted((Path(pyspark.__file__).parent / "jars").glob(f"{pattern}.jar"))


def fetched_jars(name: str, dependencies: str, has: str, types: Sequence[str] = ("jar", "bundle")) -> Path:
    """The folder of a program's jars, with those that they need.

    name: of the folder, with the version. dependencies: Ivy's XML. has: a jar that must be there. types: of artifacts.
    """
    folder = cache_folder() / name
    with locked(name):
        if not folder.exists():
            _fetch(folder, dependencies, has, types)
    return folder


def _fetch(folder: Path, dependencies: str, has: str, types: Sequence[str]) -> None:
    beside = folder.with_name(f".{folder.name}")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    modules = beside / "ivy.xml"
    modules.write_text(
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="tests" module="tests"/><configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )
    (ivy,) = spark_jars("ivy-*")
    form = f"{beside}/[artifact](-[classifier])-[revision].[ext]"
    command = ["java", "-jar", str(ivy), "-ivy", str(modules), "-retrieve", form, "-types", *types]
    done = subprocess.run([*command, "-confs", "default"], capture_output=True, text=True, check=False)
    if done.returncode or not (beside / has).exists():
        raise RuntimeError(f"The jars of {folder.name} cannot be fetched: {(done.stdout + done.stderr)[-3000:]}")
    beside.rename(folder)
