"""A route that works, is down, refuses or hangs: posting never blocks."""

import threading
import time
from collections.abc import Callable
from typing import Any

from engine.alerting.notify.http_post import post_json
from engine.alerting.notify.notice import DeliveryResult, Notice
from engine.alerting.notify.sender import MAX_WAITING, Sender
from tests.support.receiver import Receiver

Said = list[tuple[Any, ...]]


def _wait(found: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 10
    while not found() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert found()


def _notice(value: Any) -> Notice:
    return Notice("alert.raised", "", "gewählt", "r", "h", "critical", "lag", value=value)


def _open(url: str, said: Said, **more: Any) -> Sender:
    def deliver(notice: Notice) -> DeliveryResult:
        return post_json(url, notice.to_json())

    return Sender("x", deliver, lambda *one: said.append(one), lambda n, _: said.append(("works", n)), **more)


def _close(sender: Sender, patience_s: float = 10) -> None:
    sender.finish()
    sender.join(patience_s)


def test_notices_arrive_in_their_order(receiver: Receiver) -> None:
    """Complete, and all of them before it is closed."""
    said: Said = []
    sender = _open(receiver.url, said)
    for n in range(50):
        sender.post(_notice(n))
    _close(sender)
    assert receiver.got == [_notice(n).to_json() for n in range(50)]
    assert said == []


def test_what_fails_is_tried_again_and_said_once(receiver: Receiver) -> None:
    """And reported again only after a success, which is reported too; a permanently refused notice is dropped."""
    said: Said = []
    receiver.answers = [500, 503, 429]
    sender = _open(receiver.url, said, first_retry_s=0.01)
    sender.post(_notice(0))
    _wait(lambda: len(said) == 2)
    assert said == [("it answered 500", 0.01), ("works", 3)]
    receiver.answers = [404]
    sender.post(_notice(1))
    _wait(lambda: len(said) == 3)
    assert said[2] == ("it answered 404", None)
    receiver.answers = [302]
    sender.post(_notice(2))
    sender.post(_notice(3))
    _close(sender)
    assert [one["value"] for one in receiver.got] == [0, 3]
    assert said[3:] == [("works", 2)]


def test_a_route_that_is_down_holds_nobody_up(receiver: Receiver) -> None:
    """Posting returns at once, only the newest notices are kept, and closing waits for its timeout.

    The address is never shown.
    """
    said: Said = []
    url = receiver.url
    receiver.close()
    sender = _open(url, said, first_retry_s=0.01)
    began = time.monotonic()
    for n in range(2 * MAX_WAITING):
        sender.post(_notice(n))
    assert time.monotonic() - began < 1
    _wait(lambda: said)
    assert len(sender._waiting) <= MAX_WAITING
    began = time.monotonic()
    _close(sender, 0.3)
    assert time.monotonic() - began < 2
    ((problem, _),) = said
    assert "refused" in problem
    assert "s3cret" not in problem
    assert "k3y" not in problem
    sender._thread.join(10)
    assert not sender._thread.is_alive()


def test_one_that_comes_back_gets_what_waited(receiver: Receiver) -> None:
    """Also if the run ends meanwhile: it is retried at once."""
    receiver.answers = [500]
    sender = _open(receiver.url, [], first_retry_s=30)
    sender.post(_notice(0))
    _wait(lambda: not receiver.answers)
    sender.post(_notice(1))
    _close(sender)
    assert [one["value"] for one in receiver.got] == [0, 1]


def test_what_the_thread_meets_does_not_end_it(receiver: Receiver) -> None:
    """A notice that cannot be serialised is reported; the next one is posted."""
    said: Said = []
    sender = _open(receiver.url, said)
    endless: list[Any] = []
    endless.append(endless)
    sender.post(_notice(endless))
    sender.post(_notice(1))
    _close(sender)
    assert [one["value"] for one in receiver.got] == [1]
    assert "ValueError" in said[0][0]
    assert said[1:] == [("works", 1)]


def test_one_that_failed_before_works_with_its_first_success() -> None:
    """A route that an earlier run found unreachable: its failures are no news, its success is."""
    said: Said = []
    answers = [DeliveryResult("it answered 500", retry=True), DeliveryResult()]
    ready = threading.Event()

    def deliver(_: Notice) -> DeliveryResult:
        ready.wait(10)
        return answers.pop(0)

    works = lambda *_: said.append(("works",))  # noqa: E731
    sender = Sender("x", deliver, lambda *one: said.append(one), works, down=True, first_retry_s=0.01)
    sender.post(_notice(0))
    ready.set()
    _close(sender)
    assert said == [("works",)]
