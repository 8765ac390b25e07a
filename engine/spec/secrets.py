"""Secrets that a spec refers to: it names an environment variable or a file, and never has the secret itself."""

import os
from pathlib import Path

from engine.base import redaction
from engine.base.errors import SpecError


def secret(name: str, variable: str | None, file: Path | None) -> str | None:
    """A referenced secret; None if there is no reference. Raises SpecError if the reference is broken.

    name: of the keys, without `_env` and `_file`.
    """
    if variable is not None:
        value = os.environ.get(variable)
        redaction.learn(value)
        if value is None:
            raise SpecError(
                f"The environment variable {variable} ({name}_env) is not set.",
                hint="Export it for the process that runs the engine or the console.",
            )
        return value
    if file is not None:
        try:
            return redaction.secret_in(file)
        except OSError as error:
            raise SpecError(f"The file {file} ({name}_file) cannot be read: {error.strerror}.") from None
    return None
