"""Errors of a store: a bucket that does not answer, or refuses. They say nothing of what is kept there."""

import re

from engine.base.durable import UnknownOutcomeError

_REFUSAL = re.compile(r"\b(?:401 Unauthorized|403 Forbidden)\b")
_OF_THE_MACHINE = re.compile(r"\bhttp://169\.254\.(?:169\.254|170\.2|170\.23)\b")
"""Where AWS and Azure give a machine, or a container, the credentials of its role."""


class StoreAwayError(UnknownOutcomeError):
    """The store does not answer, or refuses for now. What was asked may have been done."""


class StoreAccessError(UnknownOutcomeError):
    """The store refuses the credentials: they are wrong, have expired or lack a permission. Or none are found.

    An earlier request may have been done, whose answer was lost, before it was repeated and refused.
    """


def access_error(place: str, text: str) -> StoreAccessError | None:
    """The error if the text of a client's error says that credentials are missing or refused; None if it does not.

    Its error of their own is raised for some requests alone: not for lists, nor for deletions of several files.
    Without credentials in the environment, the client asks the machine for those of its role, and not the store.

    place: what was asked for.
    """
    first = text.strip().partition("\n")[0]
    if _OF_THE_MACHINE.search(text):
        return StoreAccessError(f"No credentials for the store are found: {place}: {first}")
    if _REFUSAL.search(text):
        return StoreAccessError(f"The store refuses the credentials: {place}: {first}")
    return None
