"""Steps in threads."""

import threading

import pytest

from engine.base.parallel import run_parallel


@pytest.mark.parametrize("at_once", [1, 3])
def test_the_first_error_is_raised_after_all_steps_have_ended(at_once: int) -> None:
    """Steps that began are not left behind: what they use may be closed after that."""
    done = list[int]()

    def step(number: int) -> None:
        if number == 1:
            raise ValueError(number)
        done.append(number)

    with pytest.raises(ValueError, match="1"):
        run_parallel([lambda n=n: step(n) for n in range(4)], at_once)  # type: ignore[misc]
    assert sorted(done) == ([0] if at_once == 1 else [0, 2, 3])


def test_as_many_steps_run_at_once_as_may() -> None:
    """All meet at a barrier, which one alone would never pass."""
    barrier = threading.Barrier(5, timeout=60)
    run_parallel([barrier.wait] * 10, 5)
    run_parallel([], 5)
