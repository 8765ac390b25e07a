"""Generates the reference pages of the documentation: `make docs`.

`configuration.md` comes from the settings' own descriptions, `command-line.md` from the commands' own help. A test
compares both with what is checked in, so neither can go stale.
"""

import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from engine.__main__ import app
from engine.base.errors import ERRORS, TidemarkError
from engine.base.exit_codes import EXIT_CODES, NEEDS_OPERATOR
from engine.spec.alert_settings import Alerts, Route, TableAlerts
from engine.spec.catalog_settings import CatalogSettings
from engine.spec.database_settings import DatabaseSettings
from engine.spec.journal_settings import JournalSettings
from engine.spec.kafka_settings import KafkaSettings
from engine.spec.registry_settings import RegistrySettings
from engine.spec.settings import Metrics, ProjectionRules, Snapshot, Source, Spark, Spec, TableRules
from engine.spec.sink_settings import Sink, SinkRules
from engine.spec.throttle_settings import Throttle
from engine.spec.verify_settings import Verify
from engine.spec.watch_settings import Watch
from engine.spec.writer_settings import WriterSettings

HERE = Path(__file__).parent
SECTIONS: dict[str, type[BaseModel]] = {
    "": Spec,
    "source": Source,
    "snapshot": Snapshot,
    'snapshot.tables."GLOB"': TableRules,
    "throttle": Throttle,
    "sink": Sink,
    'sink.tables."GLOB"': SinkRules,
    "sink.catalog": CatalogSettings,
    "sink.kafka": KafkaSettings,
    "sink.kafka.registry": RegistrySettings,
    "sink.database": DatabaseSettings,
    "sink.writer": WriterSettings,
    "spark": Spark,
    "verify": Verify,
    "alerts": Alerts,
    'alerts.tables."GLOB"': TableAlerts,
    "alerts.routes.NAME": Route,
    "journal": JournalSettings,
    "metrics": Metrics,
    "watch": Watch,
    'tables."GLOB"': ProjectionRules,
}
"""The sections of a spec, in the order of the page."""
_CONFIGURATION = """\
# Configuration

One TOML file, the *spec*, describes a pipeline. An unknown key is an error, and the message suggests the nearest known
key. Durations are in seconds. Globs match full table names, `database.table`.

This page is generated from the settings' descriptions in `engine/spec`.
"""
_COMMANDS = """\
# Command line

`SPEC` is the path of a pipeline's spec. `tidemark --version` prints the version. In a clone of the repository, \
`python -m engine`
does the same as `tidemark`. This page is generated: the commands from their help texts, the exit codes from
`engine/base/exit_codes.py`; `engine/base/errors.py` has the code of each error. A process that \
a second signal ends has 128 plus its number: 130 after Ctrl-C.

| exit code | meaning |
|---|---|
{codes}
[Operations](operations.md#when-something-stops) says what to do about each.
"""


def configuration() -> str:
    """The page of all settings."""
    return _CONFIGURATION + "".join(part for name, model in SECTIONS.items() for part in _section(name, model))


def _section(name: str, model: type[BaseModel]) -> Iterator[str]:
    yield f"\n## {f'`[{name}]`' if name else 'The pipeline'}\n\n{_paragraph(model.__doc__ or '')}\n\n"
    yield "| key | default | meaning |\n|---|---|---|\n"
    for key, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            continue
        if not field.description:
            raise ValueError(f"{model.__name__}.{key} has no description")
        default = "required" if field.is_required() else f"{_default(field.get_default(call_default_factory=True))}"
        yield f"| `{key}` | {default} | {_cell(field.description)} |\n"


def _default(value: Any) -> str:
    if value is None or value is PydanticUndefined:
        return "not set"
    if isinstance(value, str):
        return f'`"{value}"`'
    if isinstance(value, tuple):
        return f"`{json.dumps(list(value))}`"
    return f"`{int(value) if isinstance(value, float) and value.is_integer() else value}`"


def _paragraph(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), 140, break_long_words=False, break_on_hyphens=False)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def command_line() -> str:
    """The page of all commands."""
    group: Any = typer.main.get_command(app)
    codes = "".join(f"| [{code}]({_anchor(code)}) | {meaning} |\n" for code, meaning in EXIT_CODES.items())
    return _COMMANDS.format(codes=codes) + "".join(
        part for name, command in sorted(group.commands.items()) for part in _command(name, command)
    )


def _anchor(code: int) -> str:
    """The link to what to do about an exit code."""
    named = [name for name, kind in ERRORS.items() if kind.exit_code == code and kind.__bases__ == (TidemarkError,)]
    return f"operations.md#exit-code-{code}" + (f"-{named[0].lower()}" if code in NEEDS_OPERATOR else "")


def _command(name: str, command: Any) -> Iterator[str]:
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    options = [parameter for parameter in command.params if parameter.param_type_name == "option" and parameter.help]
    usage = " ".join([name, *((parameter.metavar or parameter.name.upper()) for parameter in arguments)])
    yield f"\n## {name}\n\n{_paragraph(command.help or '')}\n\n```text\ntidemark {usage} [OPTIONS]\n```\n"
    if options:
        yield "\n| option | meaning |\n|---|---|\n"
    for option in options:
        yield f"| `{', '.join(option.opts)}` | {_cell(option.help)} |\n"


if __name__ == "__main__":
    (HERE / "configuration.md").write_text(configuration(), encoding="utf-8")
    (HERE / "command-line.md").write_text(command_line(), encoding="utf-8")
