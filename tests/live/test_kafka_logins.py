"""Brokers that want TLS and a login: with real certificates, and what a refused one looks like."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.base.store_errors import StoreAccessError
from engine.destination.kafka.broker_trial import ask, tried
from engine.spec.kafka_settings import KafkaSettings
from tests.servers.kafka_broker import Broker, kafka_broker
from tests.support.mail_server import make_certificate

_PASSWORD = "correct horse"


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, Path]]:
    """A broker with TLS and SASL, and the certificate of its authority."""
    folder = tmp_path_factory.mktemp("kafka")
    certificate, key = _pair(folder / "broker.pem")
    (folder / "ca.pem").write_text(certificate)
    (folder / "store.pem").write_text(key + certificate)
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_tidemark="' + _PASSWORD + '";'
    settings = {
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:SASL_SSL",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": login.replace(
            "required", f'required username="tidemark" password="{_PASSWORD}"'
        ),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "store.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
        "ssl.endpoint.identification.algorithm": "",
    }
    with kafka_broker(folder, settings) as broker:
        yield broker, folder / "ca.pem"


def _pair(file: Path) -> tuple[str, str]:
    """A certificate and its key."""
    certificate, end, key = make_certificate(file).read_text().partition("-----END CERTIFICATE-----\n")
    return certificate + end, key


def _settings(secure: tuple[Broker, Path], tmp_path: Path, password: str = _PASSWORD, **more: object) -> KafkaSettings:
    (tmp_path / "password").write_text(password)
    broker, ca = secure
    own = {
        "servers": broker.address,
        "security": "sasl_ssl",
        "sasl_mechanism": "PLAIN",
        "user": "tidemark",
        "password_file": tmp_path / "password",
        "ca": ca,
    }
    return KafkaSettings.model_validate(own | more)


def test_a_login_over_tls(secure: tuple[Broker, Path], tmp_path: Path) -> None:
    """With the right password and authority."""
    assert not tried(_settings(secure, tmp_path)).fault


def test_a_wrong_password_is_a_refusal(secure: tuple[Broker, Path], tmp_path: Path) -> None:
    """It is no broker that is away, and the password is in no message."""
    trial = tried(_settings(secure, tmp_path, "wrong battery"), 5.0)
    assert trial.fault.startswith("The store refuses the credentials"), trial
    assert "wrong battery" not in trial.fault + trial.remedy
    with pytest.raises(StoreAccessError):
        ask(_settings(secure, tmp_path, "wrong battery"), 5.0)


def test_an_unknown_authority_is_named(secure: tuple[Broker, Path], tmp_path: Path) -> None:
    """Its certificate is not accepted in silence."""
    (tmp_path / "other-ca.pem").write_text(_pair(tmp_path / "other.pem")[0])
    trial = tried(_settings(secure, tmp_path, ca=tmp_path / "other-ca.pem"), 5.0)
    assert "certificate" in trial.fault, trial
