"""The folder that a path or a URL names."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from engine.store.bucket_url import parts_of, provider_of

if TYPE_CHECKING:  # Arrow and the client of buckets would be imported with every spec
    from engine.store.folder import Folder


def folder_at(
    place: str,
    endpoint: str | None = None,
    region: str | None = None,
    *,
    path_style: bool | None = None,
    quick: bool = False,
) -> "Folder":
    """The folder at a path, or at a URL such as `s3://bucket/path`. Raises ValueError for a URL without a bucket.

    endpoint: of the store; by default `AWS_ENDPOINT_URL` or `AZURE_STORAGE_ENDPOINT` of the environment, else the
    provider's own. region, path_style: of S3. path_style: whether the bucket is part of a request's path; by default,
    with an endpoint. quick: whether requests give up soon.
    """
    if "://" not in place:
        from engine.store.local_folder import LocalFolder

        return LocalFolder(Path(place))
    from engine.store.bucket_folder import BucketFolder
    from engine.store.bucket_settings import BucketSettings

    root, path = parts_of(place)
    endpoint = endpoint or os.environ.get(provider_of(root).endpoint_variable) or None
    path_style = endpoint is not None if path_style is None else path_style
    return BucketFolder(BucketSettings(root, endpoint, region, path_style=path_style, quick=quick), path)
