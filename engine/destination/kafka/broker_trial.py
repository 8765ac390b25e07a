"""Tries brokers before a run: whether they answer, take the login, and permit topics and transactions."""

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from engine.base.errors import SpecError, TidemarkError
from engine.base.store_errors import StoreAccessError
from engine.destination.kafka.client import ANSWER_S, Clients
from engine.destination.kafka.schema_registry import SchemaRegistry
from engine.spec.kafka_settings import KafkaSettings
from engine.store.folder_trial import FolderTrial

_LOGIN = (
    "Give the user the permissions of docs/kafka.md, and look at security, sasl_mechanism, user and the password's "
    "variable or file in [sink.kafka]."
)
_REACH = "Make sure that this host reaches the brokers, and that they are advertised by names that it can resolve."
_TRIAL = "_tidemark.trial"


def tried(settings: KafkaSettings, answer_s: float | None = None) -> FolderTrial:
    """Whether the brokers can be used. Leaves nothing there. answer_s: how long they have for an answer."""
    clients = Clients(settings)
    try:
        admin = _asked(clients, answer_s)
        topic = NewTopic(_TRIAL, settings.partitions, settings.replication)
        future = admin.create_topics([topic], validate_only=True, request_timeout=ANSWER_S)[_TRIAL]
        clients.asked(lambda: future.result(ANSWER_S), admin)
        producer = clients.producer(_TRIAL, lambda *_: None)
        clients.asked(lambda: producer.init_transactions(ANSWER_S), producer)
        if settings.registry is not None:
            SchemaRegistry(settings.registry).ask()
    except StoreAccessError as error:
        return FolderTrial(str(error), _LOGIN)
    except OSError as error:
        return FolderTrial(str(error), _REACH)
    except SpecError as error:
        return FolderTrial(error.message, error.hint)
    except TidemarkError as error:
        return FolderTrial(error.message, _remedy(error))
    except KafkaException as error:
        return FolderTrial(str(clients.explained(error.args[0])), _REACH)
    return FolderTrial()


def ask(settings: KafkaSettings, answer_s: float | None = None) -> None:
    """Raises StoreAwayError or StoreAccessError if the brokers do not answer, or the registry."""
    _asked(Clients(settings), answer_s)
    if settings.registry is not None:
        SchemaRegistry(settings.registry).ask()


def _asked(clients: Clients, answer_s: float | None) -> AdminClient:
    admin = clients.admin()
    clients.asked(lambda: admin.list_topics(timeout=answer_s or ANSWER_S), admin)
    return admin


def _remedy(error: TidemarkError) -> str:
    cause = error.__cause__
    code = cause.args[0].code() if isinstance(cause, KafkaException) else None
    if code == KafkaError.INVALID_REPLICATION_FACTOR:
        return "Set sink.kafka.replication to at most the number of brokers."
    if code == KafkaError.INVALID_TRANSACTION_TIMEOUT:
        return "Set sink.kafka.transaction_timeout_s to at most transaction.max.timeout.ms of the brokers."
    return "Look at the brokers' logs."
