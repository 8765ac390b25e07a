"""How deep the tests go. `make test` ends within half an hour; `make soak` asks the same questions for hours."""

import os
from typing import TypeVar

T = TypeVar("T")
SOAK = bool(os.environ.get("TIDEMARK_SOAK"))


def depth(usual: T, soak: T) -> T:
    """A number of examples, a rate, or which cases: as usual, or as many as make sense."""
    return soak if SOAK else usual
