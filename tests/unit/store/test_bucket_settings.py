"""URLs of buckets."""

import pytest

from engine.store.bucket_settings import BucketSettings
from engine.store.bucket_url import parts_of


def test_a_url_is_a_bucket_and_a_path() -> None:
    """With or without a path; slashes at its ends do not count."""
    assert parts_of("s3://lake/pipelines/shop/") == ("s3://lake", "pipelines/shop")
    assert parts_of("gs://lake") == ("gs://lake", "")


@pytest.mark.parametrize("url", ["lake", "/data/lake", "s3:///lake", "ftp://lake/x"])
def test_other_urls_are_refused(url: str) -> None:
    """They name no bucket."""
    with pytest.raises(ValueError, match="names no bucket"):
        parts_of(url)


def test_deltalake_gets_the_same_settings() -> None:
    """And never a credential."""
    found = BucketSettings("s3://lake", "http://127.0.0.1:9", "us-east-1", path_style=True).deltalake_options
    limits = {"timeout": "30s", "max_retries": "4", "retry_timeout": "20s"}
    assert found == limits | {
        "aws_conditional_put": "etag",
        "aws_endpoint_url": "http://127.0.0.1:9",
        "aws_allow_http": "true",
        "aws_region": "us-east-1",
        "aws_virtual_hosted_style_request": "false",
    }
    assert BucketSettings("gs://lake").deltalake_options == limits
