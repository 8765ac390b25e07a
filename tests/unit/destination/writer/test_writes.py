"""What a writer gets, and what is said of one that cannot be called."""

from pathlib import Path
from typing import Any, Self

import pytest

from engine.destination.writer.writes import Call, WriterError, function_of, spark_writer
from engine.spec.writer_settings import WriterSettings


class Frame:
    """A DataFrame that notes how it is written."""

    def __init__(self) -> None:
        self.saved: dict[str, Any] = {}
        self.write = self

    def format(self, name: str) -> Self:
        """As Spark's."""
        self.saved["format"] = name
        return self

    def mode(self, name: str) -> Self:
        """As Spark's."""
        self.saved["mode"] = name
        return self

    def options(self, **options: str) -> Self:
        """As Spark's."""
        self.saved["options"] = options
        return self

    def save(self) -> None:
        """As Spark's."""


def test_options_have_the_names_of_the_write_and_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other braces stay."""
    options = {"url": "jdbc:x/{database}?p={env:WRITER_PASSWORD}", "dbtable": "{table}_{epoch}_{part}", "other": "{x}"}
    write = spark_writer(WriterSettings(format="jdbc", options=options))
    with pytest.raises(WriterError, match="WRITER_PASSWORD, which an option names, is not set"):
        write(None, "shop.orders", Frame(), Call(7, 1, "changes-0"))
    monkeypatch.setenv("WRITER_PASSWORD", "{table}")
    write(None, "shop.orders", frame := Frame(), Call(7, 1, "changes-0"))
    assert frame.saved == {
        "format": "jdbc",
        "mode": "append",
        "options": {"url": "jdbc:x/shop?p={table}", "dbtable": "orders_7_changes-0", "other": "{x}"},
    }


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (None, "There is no function"),
        ("x = 1", "There is no function"),
        ("write = 1", "is no function"),
        ("import", "cannot be imported: SyntaxError"),
        ("1 / 0", "cannot be imported: ZeroDivisionError"),
    ],
)
def test_a_function_that_cannot_be_called_is_named(
    tmp_path: Path, code: str | None, words: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is wrong with its module, which is beside the spec."""
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    name = f"writer_{abs(hash(request.node.name))}"
    if code is not None:
        (tmp_path / f"{name}.py").write_text(code)
    with pytest.raises(WriterError, match=words):
        function_of(WriterSettings(function=f"{name}.write").below(tmp_path))


def test_a_write_that_overwrites_has_a_place_of_its_own() -> None:
    """An epoch comes in several calls, of several tables: one would replace the rows of another."""
    own = "/data/{database}/{table}/{epoch}-{part}"
    names = ("{database}", "{table}", "{epoch}", "{part}")
    several = {"path": own.replace("{part}", ""), "other": "{part}"}
    for options in (several, *({"path": own.replace(name, "")} for name in names)):
        with pytest.raises(ValueError, match="a write would replace the rows of another"):
            WriterSettings(format="json", mode="overwrite", options=options).require_complete("spark")
    WriterSettings(format="json", mode="overwrite", options={"path": own}).require_complete("spark")
