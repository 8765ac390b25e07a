"""URLs of buckets."""

import pytest

from engine.store.bucket_settings import BucketSettings
from engine.store.bucket_url import parts_of
from engine.store.folder_at import folder_at


def test_a_url_is_a_bucket_and_a_path() -> None:
    """With or without a path; slashes at its ends do not count."""
    assert parts_of("s3://lake/pipelines/shop/") == ("s3://lake", "pipelines/shop")
    assert parts_of("az://lake") == ("az://lake", "")


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("lake", "only folders"),
        ("/data/lake", "only folders"),
        ("ftp://lake/x", "only folders"),
        ("gs://lake/x", "Google Cloud Storage is refused"),
        ("s3:///lake", "names no bucket"),
    ],
)
def test_other_urls_are_refused(url: str, reason: str) -> None:
    """With the reason."""
    with pytest.raises(ValueError, match=reason):
        parts_of(url)


def test_an_endpoint_is_that_of_the_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the variable of its own clients; one of S3 is none of Azure."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    assert folder_at("s3://lake/a").options["aws_endpoint_url"] == "http://127.0.0.1:9"
    assert not [name for name in folder_at("az://lake/a").options if "endpoint" in name]
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", "https://127.0.0.1:8/account")
    assert folder_at("az://lake/a").options["azure_storage_endpoint"] == "https://127.0.0.1:8/account"
    assert folder_at("az://lake/a").url == "az://lake/a"


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
    assert BucketSettings("az://lake", "http://127.0.0.1:9/account").deltalake_options == limits | {
        "azure_storage_endpoint": "http://127.0.0.1:9/account",
        "allow_http": "true",
    }
