"""What differs between the stores that buckets are in: names of settings, and what one request can do."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Provider:
    """The store that a URL's scheme names."""

    endpoint_variable: str
    """Of the environment, in which an endpoint may be."""
    endpoint_option: str
    """What deltalake calls an endpoint."""
    http_option: str
    """What deltalake calls the permission to use HTTP without TLS."""
    listed_objects: int
    """Objects that one list has."""
    deleted_objects: int
    """Objects that one request deletes."""
    gives_ends: bool
    """Whether it gives the last bytes of an object whose size is not known."""
    copies_at_once: bool
    """Whether a copy within the store is complete when its request is answered."""


PROVIDERS = {
    "s3": Provider(
        endpoint_variable="AWS_ENDPOINT_URL",
        endpoint_option="aws_endpoint_url",
        http_option="aws_allow_http",
        listed_objects=1000,
        deleted_objects=1000,
        gives_ends=True,
        copies_at_once=True,
    ),
    "az": Provider(
        endpoint_variable="AZURE_STORAGE_ENDPOINT",
        endpoint_option="azure_storage_endpoint",
        http_option="allow_http",
        listed_objects=5000,
        deleted_objects=256,
        gives_ends=False,
        copies_at_once=False,
    ),
}
"""By the schemes of URLs."""
