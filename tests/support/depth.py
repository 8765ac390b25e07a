"""How deep the tests go. `make soak` asks the questions of `make test` many times as often."""

import os
from typing import TypeVar

T = TypeVar("T")
SOAK = bool(os.environ.get("TIDEMARK_SOAK"))


def depth(usual: T, soak: T) -> T:
    """A number of examples, a rate, or which cases: as usual, or as many as make sense."""
    return soak if SOAK else usual
