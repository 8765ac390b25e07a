"""URLs of places in buckets."""

from urllib.parse import urlsplit

SCHEMES = ("s3", "gs", "az")


def parts_of(url: str) -> tuple[str, str]:
    """The root of a bucket, and the path in it. Raises ValueError for a URL without a bucket."""
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES or not parts.netloc:
        raise ValueError(f"{url} names no bucket: s3://bucket/path")
    return f"{parts.scheme}://{parts.netloc}", parts.path.strip("/")
