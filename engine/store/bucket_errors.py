"""The errors of a bucket's client as those of `Folder`."""

from collections.abc import Iterator
from contextlib import contextmanager

from obstore import exceptions

from engine.base.store_errors import StoreAccessError, StoreAwayError, access_error
from engine.store.operations import OPERATIONS

REFUSED = (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError)
"""What the client raises for credentials."""


@contextmanager
def named_errors(place: str) -> Iterator[None]:
    """Turn the client's errors into those of `Folder`, of one operation. place: what was asked for."""
    try:
        with OPERATIONS.under_way():
            yield
    except REFUSED as error:
        text = f"The store refuses the credentials: {place}: {_short(error)}"
        raise access_error(place, str(error)) or StoreAccessError(text) from error
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{place} is not there") from error
    except exceptions.BaseError as error:
        if (refused := access_error(place, str(error))) is not None:
            raise refused from error
        raise StoreAwayError(f"The store does not answer: {place}: {_short(error)}") from error


def _short(error: BaseException) -> str:
    """The first line of the client's text: the others are its internals."""
    return str(error).strip().partition("\n")[0]
