"""A webhook that works, is down, refuses or hangs: posting never blocks."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.journal import Journal
from engine.run.helpers import Helpers
from engine.run.observe.webhook import MAX_WAITING, Webhook
from tests.support.receiver import Receiver


@pytest.fixture
def helpers(tmp_path: Path) -> Helpers:
    """The helpers of a run whose journal is in this test's folder."""
    return Helpers(Journal(tmp_path / "r.jsonl", "r"))


def _wait(found: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 10
    while not found() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert found()


def test_messages_arrive_in_their_order(receiver: Receiver, helpers: Helpers) -> None:
    """Complete, and all of them before it is closed."""
    said: list[str] = []
    webhook = Webhook(receiver.url, lambda problem, _: said.append(problem), helpers)
    for n in range(50):
        webhook.post({"n": n, "text": "gewählt"})
    webhook.close(10)
    assert receiver.got == [{"n": n, "text": "gewählt"} for n in range(50)]
    assert said == []


def test_what_fails_is_tried_again_and_said_once(receiver: Receiver, helpers: Helpers) -> None:
    """And reported again only after a success; a permanently refused message is dropped."""
    said: list[tuple[str, float | None]] = []
    receiver.answers = [500, 503, 429]
    webhook = Webhook(receiver.url, lambda *message: said.append(message), helpers, first_retry_s=0.01)
    webhook.post({"n": 0})
    _wait(lambda: receiver.got == [{"n": 0}])
    assert said == [("it answered 500", 0.01)]
    receiver.answers = [404]
    webhook.post({"n": 1})
    _wait(lambda: len(said) == 2)
    assert said[1] == ("it answered 404", None)
    receiver.answers = [302]
    webhook.post({"n": 2})
    webhook.post({"n": 3})
    webhook.close(10)
    assert receiver.got == [{"n": 0}, {"n": 3}]
    assert len(said) == 2


def test_a_webhook_that_is_down_holds_nobody_up(receiver: Receiver, helpers: Helpers) -> None:
    """Posting returns at once, only the newest messages are kept, closing waits for its timeout; the address is never logged."""
    said: list[str] = []
    url = receiver.url
    receiver.close()
    webhook = Webhook(url, lambda problem, _: said.append(problem), helpers, first_retry_s=0.01)
    began = time.monotonic()
    for n in range(2 * MAX_WAITING):
        webhook.post({"n": n})
    assert time.monotonic() - began < 1
    _wait(lambda: said)
    assert len(webhook._waiting) <= MAX_WAITING
    began = time.monotonic()
    webhook.close(0.3)
    assert time.monotonic() - began < 2
    (problem,) = said
    assert "refused" in problem
    assert "s3cret" not in problem
    assert "k3y" not in problem
    webhook._thread.join(10)
    assert not webhook._thread.is_alive()


def test_one_that_comes_back_gets_what_waited(receiver: Receiver, helpers: Helpers) -> None:
    """Also if the run ends meanwhile: it is retried at once."""
    receiver.answers = [500]
    webhook = Webhook(receiver.url, lambda *_: None, helpers, first_retry_s=30)
    webhook.post({"n": 0})
    _wait(lambda: not receiver.answers)
    webhook.post({"n": 1})
    webhook.close(10)
    assert receiver.got == [{"n": 0}, {"n": 1}]


def test_what_the_thread_meets_does_not_end_it(receiver: Receiver, helpers: Helpers, tmp_path: Path) -> None:
    """A message that cannot be serialised is reported by name; the next one is posted."""
    webhook = Webhook(receiver.url, lambda *_: None, helpers)
    endless: list[Any] = []
    endless.append(endless)
    webhook.post({"n": endless})
    webhook.post({"n": 1})
    webhook.close(10)
    assert receiver.got == [{"n": 1}]
    event = json.loads((tmp_path / "r.jsonl").read_text().splitlines()[0])
    assert (event["event"], event["error"], event["helper"]) == ("error", "HelperError", "webhook")
    assert "ValueError" in event["message"]
