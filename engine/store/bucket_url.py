"""URLs of places in buckets."""

from urllib.parse import urlsplit

SCHEMES = ("s3", "gs", "az")


def parts_of(url: str) -> tuple[str, str]:
    """The root of a bucket, and the path in it. Raises ValueError for a URL without a bucket."""
    found = urlsplit(url)
    if found.scheme not in SCHEMES or not found.netloc:
        raise ValueError(f"{url} names no bucket: s3://bucket/path")
    return f"{found.scheme}://{found.netloc}", found.path.strip("/")
