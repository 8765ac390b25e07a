"""What a bucket's client says, as an error of the store."""

import pytest
from obstore import exceptions

from engine.base.errors import is_store_away, is_store_refused
from engine.base.store_errors import StoreAccessError, StoreAwayError
from engine.store.bucket_errors import named_errors

AT = "Generic S3 error: Error performing"


@pytest.mark.parametrize(
    ("said", "kind", "begins"),
    [
        (f"{AT} GET http://store:9000/lake in 3s, after 2 retries - HTTP error", StoreAwayError, "The store does not"),
        (f"{AT} GET http://store:9000/lake in 1ms - 403 Forbidden: no", StoreAccessError, "The store refuses the"),
        (
            f"{AT} PUT http://169.254.169.254/latest/api/token in 3s, after 2 retries - HTTP error: connection refused",
            StoreAccessError,
            "No credentials for the store are found: s3://lake/t: ",
        ),
        (f"{AT} GET http://169.254.170.2/v2/c - 403 Forbidden", StoreAccessError, "No credentials for the store are"),
    ],
)
def test_a_client_without_credentials_did_not_ask_the_store(said: str, kind: type[OSError], begins: str) -> None:
    """It asked the machine for those of its role. That is no store which does not answer."""
    with pytest.raises(kind) as raised, named_errors("s3://lake/t"):
        raise exceptions.GenericError(f"{said}\ninternals")
    assert str(raised.value).startswith(begins)
    assert "internals" not in str(raised.value)
    refused = kind is StoreAccessError
    assert (is_store_refused(raised.value), is_store_away(raised.value)) == (refused, not refused)
