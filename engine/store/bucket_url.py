"""URLs of places in buckets."""

from urllib.parse import urlsplit

from engine.store.providers import PROVIDERS, Provider

_UNTRIED = {
    "gs": "Google Cloud Storage is refused: its conditional writes were never tried (docs/azure.md)",
}


def parts_of(url: str) -> tuple[str, str]:
    """The root of a bucket, and the path in it. Raises ValueError for another URL."""
    parts = urlsplit(url)
    if parts.scheme not in PROVIDERS:
        raise ValueError(f"{url}: {_UNTRIED.get(parts.scheme, 'only folders, s3:// and az:// URLs are possible')}")
    if not parts.netloc:
        raise ValueError(f"{url} names no bucket: {parts.scheme}://bucket/path")
    return f"{parts.scheme}://{parts.netloc}", parts.path.strip("/")


def provider_of(url: str) -> Provider:
    """The store of a URL that `parts_of` accepts."""
    return PROVIDERS[urlsplit(url).scheme]
