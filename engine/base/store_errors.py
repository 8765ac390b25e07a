"""Errors of a store: a bucket that does not answer, or refuses. They say nothing of what is kept there."""

import re

from engine.base.durable import UnknownOutcomeError

_REFUSAL = re.compile(r"\b(?:401 Unauthorized|403 Forbidden)\b")


class StoreAwayError(UnknownOutcomeError):
    """The store does not answer, or refuses for now. What was asked may have been done."""


class StoreAccessError(UnknownOutcomeError):
    """The store refuses the credentials: they are wrong, have expired or lack a permission.

    An earlier request may have been done, whose answer was lost, before it was repeated and refused.
    """


def is_refusal(text: str) -> bool:
    """Whether the text of a client's error says that the store refuses the credentials.

    Its error of their own is raised for some requests alone: not for lists, nor for deletions of several files.
    """
    return _REFUSAL.search(text) is not None
