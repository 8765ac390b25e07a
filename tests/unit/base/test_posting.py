"""A test notification reaches the webhook, and no answer contains its address."""

import pytest

from engine.posting import send_test
from tests.support.receiver import Receiver

AT = "2026-01-31T15:30:17.000000Z"


def test_a_test_notification_looks_like_an_alert(receiver: Receiver) -> None:
    """With all fields of one, so that a receiver that reads alerts can read it."""
    answer = send_test(receiver.url, "shop", AT, "ada")
    assert (answer.status, answer.problem) == (200, "")
    (got,) = receiver.got
    assert (got["event"], got["kind"], got["pipeline"], got["since"]) == ("alert.test", "test", "shop", AT)
    assert got["message"] == "ada tests the webhook of shop. Nothing is wrong."
    assert {"table", "value", "threshold", "hint", "repeat", "ts", "run", "host"} <= got.keys()


@pytest.mark.parametrize(("status", "retry"), [(404, False), (302, False), (429, True), (503, True)])
def test_a_refusal_is_named_by_its_status(receiver: Receiver, status: int, retry: bool) -> None:
    """Redirects are not followed."""
    receiver.answers = [status]
    answer = send_test(receiver.url, "shop", AT, "")
    assert (answer.status, answer.problem, answer.retry) == (None, f"it answered {status}", retry)
    assert receiver.got == []


def test_an_unreachable_webhook_is_described_without_its_address() -> None:
    """It is a secret."""
    answer = send_test("http://127.0.0.1:9/s3cret?key=k3y", "shop", AT, "")
    assert answer.status is None
    assert "refused" in answer.problem
    assert "s3cret" not in answer.problem
    assert "k3y" not in answer.problem
