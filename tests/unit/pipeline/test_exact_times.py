"""How a connection of librdkafka's is made one of kafka-python's, for records with a time of 0."""

from __future__ import annotations

from confluent_kafka import KafkaError
from kafka import errors as kafka_errors

from kshunt.backend.admin.security.client_properties import client_config
from kshunt.backend.pipeline.kernels.exact_times import error_of, settings_of

SERVERS = {"bootstrap.servers": "a:1,b:2"}


def test_a_connection_without_security_needs_its_servers_alone() -> None:
    found = settings_of({**client_config({}).librdkafka, **SERVERS})
    assert found["bootstrap_servers"] == ["a:1", "b:2"]
    assert (found["security_protocol"], "ssl_context" in found) == ("PLAINTEXT", False)


def test_a_password_goes_along() -> None:
    jaas = "org.apache.kafka.common.security.plain.PlainLoginModule required "
    properties = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{jaas}username="me" password="secret";',
    }
    config = client_config(properties)
    found = settings_of({**config.librdkafka, **SERVERS})
    ours = {name: found[name] for name in config.kafka_python}
    assert ours == dict(config.kafka_python)


def test_errors_keep_their_codes() -> None:
    fenced = error_of(kafka_errors.ProducerFencedError("other"))
    assert fenced.code() == kafka_errors.ProducerFencedError.errno
    waited = error_of(kafka_errors.KafkaTimeoutError("long"))
    assert (waited.code(), waited.retriable()) == (KafkaError._TIMED_OUT, True)
