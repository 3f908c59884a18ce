"""`--command-config` against real brokers that ask who we are: both clients, every mechanism."""

import asyncio
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from kshunt.backend.admin.kafka.kafka_admin import KafkaAdmin
from kshunt.backend.admin.port.reassignments import ReassignOptions
from kshunt.backend.admin.security.client_properties import load_client_config
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.throttles.configs import ThrottledRate
from kshunt.backend.errors import ClusterUnreachable, ConfigError, KshuntError, NotAuthorized
from kshunt.backend.settings import Settings
from tests.support.admin import DEADLINE_S, NO_RATE, TIMEOUT_S, connected, topic_with
from tests.support.brokers.launcher import PASSWORD, USER, RealKafka
from tests.support.client_properties import OAUTH, PLAIN, SCRAM, shown
from tests.support.documents.blocks import blocks_of
from tests.support.documents.printed import printed_blocks
from tests.support.documents.session import session_on
from tests.support.paths import ROOT
from tests.support.waiting import wait_until_async

pytestmark = [pytest.mark.kafka, pytest.mark.own_brokers]

REAUTHENTICATE_MS = 3_000
"""A broker takes none that comes within a second of the last one."""
LOCKED_OUT = "locked-out"
"""A topic that every principal may see and only the super user may move."""

OVERRIDES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "allow.everyone.if.no.acl.found": "true",
    "listener.name.sasl.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
    "listener.name.sasl.oauthbearer.sasl.jaas.config": (
        f'{OAUTH} required unsecuredLoginStringClaim_sub="broker";'
    ),
    "listener.name.sasl.connections.max.reauth.ms": str(REAUTHENTICATE_MS),
}
MODULES = {"PLAIN": PLAIN, "SCRAM-SHA-256": SCRAM, "SCRAM-SHA-512": SCRAM}


@pytest.fixture(scope="module")
def guarded() -> Iterator[RealKafka]:
    """Two brokers with a listener of each security protocol, and an authorizer."""
    with RealKafka(2, OVERRIDES, sasl=True, ssl=True) as cluster:
        yield cluster


def settings(bootstrap_servers: str, folder: Path, properties: Mapping[str, object]) -> Settings:
    """Settings with these properties in a file."""
    path = folder / "client.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    return Settings(bootstrap_servers, path)


def login(mechanism: str, password: str = PASSWORD) -> dict[str, object]:
    module = MODULES[mechanism]
    return {
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{module} required username="{USER}" password="{password}";',
    }


def trusting(kafka: RealKafka) -> dict[str, object]:
    return {"ssl.truststore.type": "PEM", "ssl.truststore.location": kafka.ca_pem_path}


async def both_clients_describe(found: Settings) -> None:
    """kafka-python through `KafkaAdmin`, and librdkafka with what the same file becomes."""
    async with connected(found.bootstrap_servers, found.command_config) as admin:
        state = await admin.cluster.describe(timeout_s=TIMEOUT_S)
        assert state.brokers.keys() == {1, 2}
        # Brokers advertise the listener that was asked, so this authenticates once more.
        assert len((await admin.logs.dirs(2, timeout_s=TIMEOUT_S)).dirs) == 2
    client = AdminClient(
        {
            "bootstrap.servers": found.bootstrap_servers,
            "log_level": 0,
            **load_client_config(found.command_config).librdkafka,
        }
    )
    listed = await asyncio.to_thread(client.list_topics, timeout=DEADLINE_S)
    assert listed.brokers.keys() == {1, 2}


async def refusal(found: Settings) -> KshuntError:
    """Why a connection is not made; it must be known soon."""
    admin = KafkaAdmin(found)
    started = time.monotonic()
    with pytest.raises(KshuntError) as caught:
        await admin.connect(timeout_s=TIMEOUT_S)
    assert time.monotonic() - started < TIMEOUT_S / 2
    await admin.close()
    assert PASSWORD not in shown(caught.value)
    return caught.value


def test_the_properties_of_the_quick_start_connect(guarded: RealKafka) -> None:
    page = "docs/quick-start.md"
    [text] = [
        block.text for block in blocks_of(ROOT / page) if "client" in block.options.get("title", "")
    ]
    for name, own in (
        ('username="kshunt"', f'username="{USER}"'),
        ('password="kshunt-secret"', f'password="{PASSWORD}"'),
        ("/etc/kshunt/ca.pem", str(guarded.ca_pem_path)),
    ):
        assert name in text
        text = text.replace(name, own)
    names = {"broker1:9093": guarded.sasl_ssl_bootstrap}
    with session_on("", "", names) as reader:
        (reader.folder / "work" / "client.properties").write_text(text)
        for block in printed_blocks(page, __file__):
            reader.run(block)


@pytest.mark.parametrize("mechanism", list(MODULES))
async def test_sasl_with_a_password(guarded: RealKafka, tmp_path: Path, mechanism: str) -> None:
    over_text = {"security.protocol": "SASL_PLAINTEXT", **login(mechanism)}
    await both_clients_describe(settings(guarded.sasl_bootstrap, tmp_path, over_text))
    over_tls = {"security.protocol": "SASL_SSL", **login(mechanism), **trusting(guarded)}
    await both_clients_describe(settings(guarded.sasl_ssl_bootstrap, tmp_path, over_tls))


@pytest.mark.parametrize("mechanism", list(MODULES))
async def test_a_wrong_password_is_refused_at_once(
    guarded: RealKafka, tmp_path: Path, mechanism: str
) -> None:
    wrong = {"security.protocol": "SASL_PLAINTEXT", **login(mechanism, "not-the-password")}
    error = await refusal(settings(guarded.sasl_bootstrap, tmp_path, wrong))
    assert isinstance(error, NotAuthorized)
    assert "rejects our credentials" in error.message
    assert "not-the-password" not in shown(error)


@pytest.mark.parametrize("inline", [False, True])
async def test_tls_with_a_certificate_of_our_own(
    guarded: RealKafka, tmp_path: Path, inline: bool
) -> None:
    key = guarded.client_key_path.read_text()
    chain = guarded.client_certificate_path.read_text()
    properties = {"security.protocol": "SSL", "ssl.keystore.type": "PEM", **trusting(guarded)}
    if inline:
        properties["ssl.keystore.key"] = key.replace("\n", " \\\n")
        properties["ssl.keystore.certificate.chain"] = chain.replace("\n", " \\\n")
    else:
        (tmp_path / "me.pem").write_text(key + chain)
        properties["ssl.keystore.location"] = tmp_path / "me.pem"
    await both_clients_describe(settings(guarded.ssl_bootstrap, tmp_path, properties))


async def test_a_broker_that_nobody_vouches_for_is_not_trusted(
    guarded: RealKafka, tmp_path: Path
) -> None:
    error = await refusal(settings(guarded.ssl_bootstrap, tmp_path, {"security.protocol": "SSL"}))
    assert isinstance(error, ConfigError)
    assert "not trusted" in error.message


async def test_an_unsecured_token_is_taken_and_an_expired_one_is_not(
    guarded: RealKafka, tmp_path: Path
) -> None:
    claim = 'unsecuredLoginStringClaim_sub="alice"'
    properties: dict[str, object] = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f"{OAUTH} required {claim};",
    }
    await both_clients_describe(settings(guarded.sasl_bootstrap, tmp_path, properties))
    properties["sasl.jaas.config"] = (
        f'{OAUTH} required {claim} unsecuredLoginLifetimeSeconds="-60";'
    )
    error = await refusal(settings(guarded.sasl_bootstrap, tmp_path, properties))
    assert isinstance(error, NotAuthorized)


async def test_a_connection_authenticates_again_before_its_session_ends(
    guarded: RealKafka, tmp_path: Path
) -> None:
    properties = {"security.protocol": "SASL_PLAINTEXT", **login("SCRAM-SHA-256")}
    found = settings(guarded.sasl_bootstrap, tmp_path, properties)
    async with connected(found.bootstrap_servers, found.command_config) as admin:
        until = time.monotonic() + 2.5 * REAUTHENTICATE_MS / 1000

        async def sessions_have_passed() -> bool:
            assert len((await admin.logs.dirs(1, timeout_s=TIMEOUT_S)).dirs) == 2
            return time.monotonic() > until

        await wait_until_async(sessions_have_passed, DEADLINE_S, "two sessions have passed")


@pytest.mark.parametrize(
    ("listener", "protocol", "kind", "words"),
    [
        ("ssl", "PLAINTEXT", ConfigError, "expects TLS"),
        ("ssl", "SASL_PLAINTEXT", ConfigError, "expects TLS"),
        ("sasl", "PLAINTEXT", ClusterUnreachable, "Does the listener use PLAINTEXT?"),
        ("plain", "SASL_PLAINTEXT", ConfigError, "does not use SASL"),
        ("plain", "SSL", ClusterUnreachable, "Does the listener use SSL?"),
        ("sasl", "SASL_SSL", ClusterUnreachable, "Does the listener use SASL_SSL?"),
    ],
)
async def test_another_protocol_than_the_listeners_is_told_apart(
    guarded: RealKafka,
    tmp_path: Path,
    listener: str,
    protocol: str,
    kind: type[KshuntError],
    words: str,
) -> None:
    servers = {
        "ssl": guarded.ssl_bootstrap,
        "sasl": guarded.sasl_bootstrap,
        "plain": guarded.bootstrap_servers,
    }[listener]
    properties = {"security.protocol": protocol, **trusting(guarded), **login("PLAIN")}
    error = await refusal(settings(servers, tmp_path, properties))
    assert type(error) is kind
    assert words in str(error)


def allow_configs_only(kafka: RealKafka) -> None:
    """Our user may read everything and alter configurations, and move nothing."""
    operations = (
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    )
    bindings = [
        AclBinding(
            ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL,
            f"User:{USER}", "*", operation, AclPermissionType.ALLOW,
        )
        for operation in operations
    ]  # fmt: skip
    client = AdminClient({"log_level": 0, "bootstrap.servers": kafka.bootstrap_servers})
    for future in client.create_acls(bindings).values():
        future.result(timeout=DEADLINE_S)


@pytest.mark.conforms("kip-179:controller-authz")
async def test_a_move_that_is_not_allowed_leaves_no_throttle(
    guarded: RealKafka, tmp_path: Path
) -> None:
    properties = {"security.protocol": "SASL_PLAINTEXT", **login("PLAIN")}
    found = settings(guarded.sasl_bootstrap, tmp_path, properties)
    async with connected(guarded.bootstrap_servers) as super_user:
        topic = await topic_with(super_user, LOCKED_OUT, [[1]])
        earlier = ThrottledRate(5_000_000, None)
        await super_user.throttles.alter_rates(
            {1: earlier}, validate_only=False, timeout_s=TIMEOUT_S
        )
        await asyncio.to_thread(allow_configs_only, guarded)
        async with connected(found.bootstrap_servers, found.command_config) as admin:
            with pytest.raises(NotAuthorized, match="CLUSTER_AUTHORIZATION_FAILED"):
                await admin.reassignments.reassign(
                    {TopicPartition(topic, 0): [2]},
                    ReassignOptions(throttle_bytes_per_s=1_000_000),
                    {},
                )
            with pytest.raises(NotAuthorized):
                await admin.reassignments.alter(
                    {TopicPartition(topic, 0): None}, timeout_s=TIMEOUT_S
                )
        after = await super_user.throttles.describe([1, 2], [topic], timeout_s=TIMEOUT_S)
        assert after.replicas == {}
        assert {b: t.rate for b, t in after.rates.items()} == {1: earlier, 2: NO_RATE}
