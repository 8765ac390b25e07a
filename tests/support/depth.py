"""The depth of the tests: `make soak` runs many more examples than `make test`."""

import os
from typing import TypeVar

import pytest

from tests.servers import FLAVORS

T = TypeVar("T")
SOAK = bool(os.environ.get("TIDEMARK_SOAK"))


def depth(usual: T, soak: T) -> T:
    """A number of examples, a rate or a list of cases: the usual one, or the one for a soak test."""
    return soak if SOAK else usual


def on(flavor: str) -> pytest.MarkDecorator:
    """For behaviour that no server changes: a test runs on this one, and in a soak test on both."""
    return pytest.mark.parametrize("flavor", depth([flavor], list(FLAVORS)))
