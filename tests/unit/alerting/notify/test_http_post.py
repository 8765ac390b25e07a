"""A POST is answered, refused or lost; no answer contains its address."""

import logging

import pytest

from engine.alerting.notify.http_post import post_json
from tests.support.receiver import Receiver


def test_a_post_arrives_as_it_is(receiver: Receiver, caplog: pytest.LogCaptureFixture) -> None:
    """As JSON in UTF-8. No library logs the address, whatever the level of the log is."""
    caplog.set_level(logging.DEBUG)
    answer = post_json(receiver.url, {"text": "gewählt"})
    assert (answer.status, answer.problem) == (200, "")
    assert receiver.got == [{"text": "gewählt"}]
    assert "s3cret" not in caplog.text


@pytest.mark.parametrize(("status", "retry"), [(404, False), (302, False), (429, True), (503, True)])
def test_a_refusal_is_named_by_its_status(receiver: Receiver, status: int, retry: bool) -> None:
    """Redirects are not followed."""
    receiver.answers = [status]
    answer = post_json(receiver.url, {})
    assert (answer.status, answer.problem, answer.retry) == (None, f"it answered {status}", retry)
    assert receiver.got == []


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/s3cret?key=k3y", "http://127.0.0.1:9999999/s3cret?key=k3y"])
def test_an_unreachable_receiver_is_described_without_its_address(url: str) -> None:
    """It is a secret, also where it is no address."""
    answer = post_json(url, {})
    assert answer.status is None
    assert answer.problem
    assert "s3cret" not in answer.problem
    assert "k3y" not in answer.problem


def test_a_refused_connection_says_so() -> None:
    """And is worth another try."""
    answer = post_json("http://127.0.0.1:9/s3cret", {})
    assert "refused" in answer.problem
    assert answer.retry
