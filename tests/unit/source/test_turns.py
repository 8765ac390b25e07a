"""Turns for connections: never more than there are, in order, and without a wait for ever."""

import threading
from concurrent.futures import ThreadPoolExecutor

from engine.source.turns import TASK, Turns


def test_holders_never_have_more_connections_than_there_are() -> None:
    """Whatever they ask for; who asks for more than there are gets all."""
    turns, lock, taken, most = Turns(4), threading.Lock(), 0, 0

    def use(wanted: int) -> None:
        nonlocal taken, most
        with turns.take(wanted):
            with lock:
                taken += min(wanted, 4)
                most = max(most, taken)
            with lock:
                taken -= min(wanted, 4)

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(use, [1, 3, 2, 9] * 100))
    assert (taken, 0 < most <= 4) == (0, True)


def test_turns_are_given_in_order() -> None:
    """Somebody who wants many is not skipped for those who want one."""
    turns, order, began = Turns(3), list[str](), list[threading.Thread]()

    def use(name: str, wanted: int) -> None:
        with turns.take(wanted):
            order.append(name)

    with turns.take(2):
        for name, wanted in (("all", 3), ("one", 1), ("another", 1)):
            began.append(threading.Thread(target=use, args=(name, wanted)))
            began[-1].start()
            while turns.waiting < len(began):
                pass
        assert order == []
    for thread in began:
        thread.join()
    assert order[0] == "all"


def test_without_a_limit_nobody_waits() -> None:
    """And tasks run in all slots."""
    turns = Turns()
    assert (turns.few, turns.tasks) == (False, None)
    with turns.take(TASK), turns.take(TASK):
        pass
    assert [Turns(most).tasks for most in (3, 5, 6)] == [1, 1, 2]
    assert [Turns(most).of_epoch <= most for most in (3, 5, 6, 9)] == [True] * 4
