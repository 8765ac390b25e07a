"""How a bucket is reached. Credentials are no setting: they come from the environment or the machine's role."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Any

from obstore import exceptions
from obstore.store import ObjectStore, from_url

from engine.base.store_errors import StoreAccessError
from engine.store.bucket_url import provider_of
from engine.store.providers import Provider

_RETRIES: Any = {"max_retries": 4, "retry_timeout": timedelta(seconds=20)}
"""Of one request. Who waits longer for a store does so above, where it is shown."""
_TIMEOUT = "30s"
_QUICK_RETRIES: Any = {"max_retries": 2, "retry_timeout": timedelta(seconds=4)}
_QUICK_TIMEOUT = "3s"
"""For small files that are of no use when they are late."""
_from_url: Callable[..., ObjectStore] = from_url


@dataclass(frozen=True)
class BucketSettings:
    """A bucket, and what its client must know. root: `s3://bucket` or `az://container`."""

    root: str
    endpoint: str | None = None
    """The URL of a store that speaks S3 or as Azure does; None for the provider's own."""
    region: str | None = None
    path_style: bool = False
    """Whether the bucket is part of the path instead of the host name, as most stores but S3 have it."""
    quick: bool = False
    """Whether requests give up soon."""

    @property
    def provider(self) -> Provider:
        """Of the store."""
        return provider_of(self.root)

    @property
    def deltalake_options(self) -> dict[str, str]:
        """The same for deltalake."""
        options = {"timeout": _TIMEOUT, "max_retries": str(_RETRIES["max_retries"])}
        options["retry_timeout"] = f"{_RETRIES['retry_timeout'].seconds}s"
        if self.endpoint is not None:
            options[self.provider.endpoint_option] = self.endpoint
            options[self.provider.http_option] = str(self.endpoint.startswith("http://")).lower()
        if self.region is not None:
            options["aws_region"] = self.region
        if self.root.startswith("s3://"):
            options["aws_conditional_put"] = "etag"
            options["aws_virtual_hosted_style_request"] = str(not self.path_style).lower()
        return options


def opened(settings: BucketSettings) -> ObjectStore:
    """The client, one in a process: it keeps connections, and does not survive a fork.

    Raises StoreAccessError if it can be made with no credentials of the environment.
    """
    return _opened(settings, os.getpid())


@lru_cache(maxsize=64)
def _opened(settings: BucketSettings, _process: int) -> ObjectStore:
    config: dict[str, Any] = {}
    if settings.root.startswith("s3://"):
        config["virtual_hosted_style_request"] = not settings.path_style
        if settings.region is not None:
            config["region"] = settings.region
    if settings.endpoint is not None:
        config["endpoint"] = settings.endpoint
    client: Any = {"timeout": _QUICK_TIMEOUT if settings.quick else _TIMEOUT}
    if settings.endpoint is not None and settings.endpoint.startswith("http://"):
        client["allow_http"] = True
    retries = _QUICK_RETRIES if settings.quick else _RETRIES
    try:
        return _from_url(settings.root, config=config, client_options=client, retry_config=retries)
    except exceptions.BaseError as error:
        text = str(error).partition("\n")[0]
        raise StoreAccessError(f"No client with these credentials: {settings.root}: {text}") from error
