"""Which runner may write to the topics: the newest term in the state topic has them.

A runner takes its term by `init_transactions` of both producers, which fences those of earlier runners: whatever they
still send is aborted. Then it writes its term. An earlier runner whose `init_transactions` comes late fences the later
one for a moment, but reads the later one's term and ends; the later one then begins its transaction again.

A broker answers a commit before readers see it. So an older term in the topic means that this runner's own cannot be
read yet; `take` waits until it can.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

from engine.base import clock
from engine.base.store_errors import StoreAwayError
from engine.destination.fence import Term, takeover_error
from engine.destination.kafka.client import ANSWER_S
from engine.destination.kafka.epoch_transaction import KafkaMessage, TransactionalProducer
from engine.destination.kafka.state_topic import StateTopic, encoded

KEY = "term"
_LOOK_S = 0.05


def term_in(state: StateTopic) -> Term | None:
    """The newest term, as it was read last."""
    record = state.record(KEY)
    return Term(**record) if record is not None else None


class KafkaTerms:
    """state_of, producers_of: of a ledger (`destination.destination_protocol.Terms`)."""

    def __init__(
        self,
        state_of: Callable[[str], StateTopic],
        producers_of: Callable[[str], Sequence[TransactionalProducer]],
    ) -> None:
        self._state_of = state_of
        self._producers_of = producers_of
        self._own: Term | None = None
        self._ledger = ""
        self._lost: Term | None = None

    def newest(self, ledger: str) -> Term | None:
        """By the state topic."""
        state = self._state_of(ledger)
        state.read()
        return term_in(state)

    def take(self, ledger: str, term: Term) -> None:
        """Fence earlier runners, and write the term."""
        self._refuse_if_held(term, self.newest(ledger))
        self._state_of(ledger).create()
        self._own = term
        self._ledger = ledger
        self._lost = None
        producers = self._producers_of(ledger)
        for producer in producers:
            producer.fence()
        self._refuse_if_held(term, self.newest(ledger))
        self._write(producers[0], term)
        self._wait_until_read(term)

    def check(self) -> int:
        """The number of this runner's term; 0 before it took one. Asks nobody: Kafka refuses what is sent too late."""
        if self._lost is not None:
            assert self._own is not None
            raise takeover_error(self._own, self._lost)
        return 0 if self._own is None else self._own.number

    def check_now(self) -> int:
        """As `check`, by the state topic: for what Kafka would not refuse, such as a deletion of a topic."""
        if self._own is not None:
            newest = self.newest(self._ledger)
            if _holds(newest, self._own):
                self._lost = newest
        return self.check()

    def _wait_until_read(self, term: Term) -> None:
        """Wait until readers see the term. Raises PipelineHeldError if a later one is there, StoreAwayError."""
        deadline_s = clock.monotonic_s() + ANSWER_S
        while (newest := self.newest(self._ledger)) is None or newest.number < term.number:
            if clock.monotonic_s() > deadline_s:
                topic = self._state_of(self._ledger).name
                raise StoreAwayError(f"The store does not answer: {topic} does not show what Kafka has committed.")
            time.sleep(_LOOK_S)
        self.check_now()

    def release(self) -> None:
        """Write that the term has ended."""
        if self._own is not None and self._lost is None:
            self._write(self._producers_of(self._ledger)[0], replace(self._own, ended=True))

    def _write(self, producer: TransactionalProducer, term: Term) -> None:
        producer.begin()
        record: dict[str, Any] = asdict(term)
        producer.send([KafkaMessage(self._state_of(self._ledger).name, KEY.encode(), encoded(record))])
        producer.flush()
        producer.raise_fault()
        producer.commit()

    @staticmethod
    def _refuse_if_held(own: Term, newest: Term | None) -> None:
        if _holds(newest, own):
            raise takeover_error(own, newest)


def _holds(newest: Term | None, own: Term) -> bool:
    """Whether the newest term is another runner's, and no earlier one's."""
    if newest is None or newest.number < own.number:
        return False
    return (newest.number, newest.run) != (own.number, own.run)
