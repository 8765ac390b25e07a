"""Errors of a store: a bucket that does not answer, or refuses. They say nothing of what is kept there."""

from engine.base.durable import UnknownOutcomeError


class StoreAwayError(UnknownOutcomeError):
    """The store does not answer, or refuses for now. What was asked may have been done."""


class StoreAccessError(UnknownOutcomeError):
    """The store refuses the credentials: they are wrong, have expired or lack a permission.

    An earlier request may have been done, whose answer was lost, before it was repeated and refused.
    """
