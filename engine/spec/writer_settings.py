"""`[sink.writer]`: a function of yours, or one of Spark's writers, that gets the changes."""

import re
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, PrivateAttr, field_validator

from engine.spec.section import Section

WriterType = Literal["python", "spark"]
WRITER_TYPES: tuple[WriterType, ...] = ("python", "spark")
"""The values of `sink.type` whose changes something else writes."""
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*[.:][A-Za-z_]\w*")

_OF_A_WRITE = ("{database}", "{table}", "{epoch}", "{part}")
"""What tells a write from all others."""


class WriterSettings(Section):
    """What writes the changes ([Writers](destinations.md#writers))."""

    function: str | None = None
    """Of `type = "python"`: the function, by its dotted name, such as `sinks.events.write`. Its module is beside the
    spec, or can be imported."""
    format: str | None = None
    """Of `type = "spark"`: the format, such as `json`, `jdbc` or one of a package."""
    mode: Literal["append", "overwrite"] = "append"
    """Of `type = "spark"`: the mode of each write. `overwrite` needs `{database}`, `{table}`, `{epoch}` and `{part}` in
    an option, so that a write replaces nothing but itself."""
    options: dict[str, str] = Field(default_factory=dict)
    """Of `type = "spark"`: the writer's options. `{database}`, `{table}` and `{epoch}` stand for those of a write,
    `{part}` for one of the writes of an epoch, and `{env:NAME}` for an environment variable: options are no place for
    secrets."""
    _folder: Path = PrivateAttr(Path())

    @field_validator("function")
    @classmethod
    def _name(cls, value: str | None) -> str | None:
        if value is not None and not _DOTTED.fullmatch(value):
            raise ValueError(f"{value!r} is no dotted name of a function, such as sinks.events.write")
        return value

    @property
    def folder(self) -> Path:
        """The spec's folder, where the function's module may be."""
        return self._folder

    def require_complete(self, kind: WriterType) -> None:
        """Raises ValueError for what a kind lacks, or does not have. kind: `sink.type`."""
        needed, unused = ("function", {"format", "mode", "options"}) if kind == "python" else ("format", {"function"})
        if getattr(self, needed) is None:
            raise ValueError(f'writer.{needed}: missing; type = "{kind}" needs it')
        if wrong := sorted(unused & self.model_fields_set):
            raise ValueError(f'writer.{wrong[0]}: not for type = "{kind}"')
        if self.mode == "overwrite" and not any(all(n in one for n in _OF_A_WRITE) for one in self.options.values()):
            raise ValueError(
                f'writer.options: mode = "overwrite" needs {", ".join(_OF_A_WRITE)} in the place that is written, such '
                "as /data/{database}/{table}/{epoch}-{part}; a write would replace the rows of another one"
            )

    def below(self, root: Path) -> Self:
        """With the folder of the spec."""
        copy = self.model_copy()
        copy._folder = root  # noqa: SLF001 - its own
        return copy
