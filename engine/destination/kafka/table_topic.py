"""The topic of a table: whether it is there, is the one that it was, and has no messages of others."""

from engine.base import clock
from engine.base.errors import DestinationError, SpecError
from engine.base.wording import shell_word
from engine.decode.schema import Table
from engine.destination.kafka.sent_records import UsedTopic
from engine.destination.kafka.shared_topics import SharedTopics

_KEY = "topic "
_LOOK_S = 5.0
"""How often a run looks whether a topic is still the one that it was."""


class TableTopic:
    """name: as the spec has it."""

    def __init__(self, shared: SharedTopics, table: Table) -> None:
        self._shared = shared
        self._table = table.full_name
        self.name = shared.settings.topic_of(table.database, table.name)
        self.key = f"{_KEY}{self._table}"
        """Of its record in the state topic."""

    @property
    def place(self) -> str:
        """What it is, for messages."""
        return f"topic {self.name} at {self._shared.settings.servers}"

    @property
    def used(self) -> UsedTopic:
        """The one that this pipeline has used."""
        return UsedTopic.from_json(self._shared.state.record(self.key))

    @property
    def is_there(self) -> bool:
        """Whether this pipeline has used it, and a topic of its name is there."""
        return bool(self.used.topic) and self.name in self._shared.topics.all()

    def fault(self) -> str:
        """Why it is not the one that this pipeline has used; "" if it is."""
        used = self.used
        if not used.topic:
            return f"{self.place} was never used by this pipeline"
        if used.topic != self.name:
            return f"topic of {self._table} was {used.topic}, and the spec now names {self.name}"
        identity = self._shared.topics.identity(used.topic)
        if not identity:
            return f"{self.place} is gone"
        return "" if identity == used.id else f"{self.place} was deleted and created again"

    def require_same(self) -> None:
        """Raises DestinationError if it is gone, or another one has its name: brokers may create it for a message."""
        now_s = clock.monotonic_s()
        if now_s - self._shared.looked_s.get(self.name, -_LOOK_S) < _LOOK_S:
            return
        if fault := self.fault():
            raise DestinationError(
                f"The {fault}.",
                detail="Its messages went with it. Nothing is sent to another topic in its place in silence.",
                hint=f"Resnapshot the table into a new topic: tidemark redump SPEC --table {shell_word(self._table)}",
            )
        self._shared.looked_s[self.name] = now_s

    def require_own(self) -> None:
        """Raises SpecError if it has messages of others, and the spec does not permit that."""
        settings = self._shared.settings
        if settings.has_one_topic:
            return
        self._require_alone()
        if self.used.topic == self.name or self.name not in self._shared.topics.all(newest=True):
            return
        if settings.existing_topics == "refuse" and not self._shared.topics.is_empty(self.name):
            raise SpecError(
                f"The {self.place} exists already, and has messages that this pipeline has not sent.",
                detail="Its readers would get the rows of both; nothing was sent.",
                hint='Choose another sink.kafka.topic, delete that topic, or set existing_topics = "append" in '
                "[sink.kafka].",
            )

    def _require_alone(self) -> None:
        """Raises SpecError if another table has it: their names differ in what a topic's cannot have."""
        for key, record in self._shared.state.records().items():
            if key.startswith(_KEY) and key != self.key and UsedTopic.from_json(record).topic == self.name:
                raise SpecError(
                    f"The {self.place} is the one of {key.removeprefix(_KEY)}, too.",
                    detail="Messages of two tables would have the same keys; nothing was sent.",
                    hint="Choose a sink.kafka.topic that tells them apart, such as {database}.{table}, or exclude one.",
                )

    def begin(self) -> None:
        """Begin to use it; create it if it is not there."""
        with self._shared.opening:
            self._begin()

    def _begin(self) -> None:
        shared = self._shared
        generation = self.used.generation
        self.require_own()
        if self.name not in shared.topics.all(newest=True):
            if not shared.settings.create_topics:
                raise DestinationError(
                    f"The {self.place} is not there.",
                    detail="The table stops; nothing of it was sent. create_topics is false.",
                    hint=f"Create the topic, then: tidemark redump SPEC --table {shell_word(self._table)}",
                )
            shared.topics.create_for_table(self.name)
        shared.looked_s[self.name] = clock.monotonic_s()
        shared.snapshots.write(
            {self.key: UsedTopic(self.name, shared.topics.identity(self.name), generation).to_json()}
        )

    def delete(self) -> None:
        """Delete it, unless other tables share it."""
        if not self._shared.settings.has_one_topic:
            self._shared.topics.delete(self.used.topic)
