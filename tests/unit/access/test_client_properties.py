"""`--command-config`: the file's syntax, what each key becomes, and that no secret is shown."""

import logging
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshunt.backend.admin.security import jaas
from kshunt.backend.admin.security.client_properties import (
    HARMLESS,
    USED,
    WHY_NOT,
    ClientConfig,
    client_config,
    load_client_config,
    parse_properties,
)
from kshunt.backend.admin.security.redacted import Redacted
from kshunt.backend.errors import ConfigError
from tests.support.client_properties import OAUTH, PLAIN, SCRAM, SECRET, refused, sasl, shown

# The file's syntax


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("a=b", {"a": "b"}),
        ("a : b", {"a": "b"}),
        ("a b c", {"a": "b c"}),
        ("  a\t=\t b  ", {"a": "b"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("a==b", {"a": "=b"}),
        ("a:=b", {"a": "=b"}),
        ("# c\n ! d\n\n\f\na=b", {"a": "b"}),
        ("a=b\ra2=b2\r\na3=b3\n", {"a": "b", "a2": "b2", "a3": "b3"}),
        ("a=one\\\n   two", {"a": "onetwo"}),
        ("a=one\\\n# not a comment", {"a": "one# not a comment"}),
        ("a=one\\\\\nb=2", {"a": "one\\", "b": "2"}),
        ("a=one\\", {"a": "one"}),
        ("a=b#c", {"a": "b#c"}),
        ("a\\=b\\:c\\ d=e", {"a=b:c d": "e"}),
        ("a=\\u0041\\t\\q\\\\", {"a": "A\tq\\"}),
        ("a=1\na=2", {"a": "2"}),
        ("", {}),
    ],
)
def test_properties_are_read_as_java_reads_them(text: str, entries: dict[str, str]) -> None:
    assert parse_properties(text) == entries


@pytest.mark.parametrize("text", ["a=\\u12", "ok=1\na=\\u12g4", "a=\\u+123"])
def test_a_malformed_escape_is_named_by_its_line(text: str) -> None:
    with pytest.raises(ConfigError, match=rf"^Line {text.count(chr(10)) + 1}: "):
        parse_properties(text)


def escaped(text: str) -> str:
    """As `java.util.Properties.store` writes a key or a value."""
    plain = "".join(f"\\{c}" if c in "\\=:#! \t" else c for c in text)
    return "".join(c if " " <= c <= "~" or c == "\t" else f"\\u{ord(c):04x}" for c in plain)


@given(
    st.dictionaries(st.text(st.characters(max_codepoint=0xD7FF), min_size=1), st.text("ab= :\\#!é"))
)
def test_what_is_stored_is_read_back(entries: dict[str, str]) -> None:
    text = "\n".join(f"{escaped(key)}={escaped(value)}" for key, value in entries.items())
    assert parse_properties(text) == {key: value.strip() for key, value in entries.items()}


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(ConfigError):
        parse_properties(text)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"Cannot read .*client\.properties: No such file"):
        load_client_config(tmp_path / "client.properties")
    (tmp_path / "bad.properties").write_text("nonsense.key=1")
    with pytest.raises(ConfigError, match=r"bad\.properties: Cannot use nonsense\.key"):
        load_client_config(tmp_path / "bad.properties")


# What the keys become


def test_no_file_is_plain_text() -> None:
    config = load_client_config(None)
    assert config.security_protocol == "PLAINTEXT"
    assert config.ssl_context is None
    assert config.kafka_python == {"client_id": "kshunt", "security_protocol": "PLAINTEXT"}
    assert config.librdkafka == {"client.id": "kshunt", "security.protocol": "PLAINTEXT"}


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [("PLAIN", PLAIN), ("SCRAM-SHA-256", SCRAM), ("SCRAM-SHA-512", SCRAM)],
)
def test_user_and_password_reach_both_clients(mechanism: str, module: str) -> None:
    options = f'username="ops\\"1" password="{SECRET}"'
    config = client_config(sasl(mechanism, module, options, client_id="me"))
    assert config.kafka_python == {
        "client_id": "me",
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": 'ops"1',
        "sasl_plain_password": SECRET,
    }
    assert config.librdkafka == {
        "client.id": "me",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": 'ops"1',
        "sasl.password": SECRET,
    }
    assert SECRET not in f"{config} {config!r} {config.kafka_python} {config.librdkafka!r}"


def test_keys_that_only_tune_a_java_client_are_noted() -> None:
    config = client_config(
        {
            "bootstrap.servers": "a:1",
            "key.serializer": "x",
            "default.api.timeout.ms": "5",
            "ssl.truststore.location": "/nowhere.jks",
            "sasl.mechanism": "GSSAPI",
            "ssl.cipher.suites": "x",
        }
    )
    assert config.ignored == (
        "bootstrap.servers",
        "default.api.timeout.ms",
        "key.serializer",
        "sasl.mechanism",
        "ssl.cipher.suites",
        "ssl.truststore.location",
    )


def test_no_key_has_two_meanings() -> None:
    assert not USED & HARMLESS
    assert not (USED | HARMLESS) & WHY_NOT.keys()


@pytest.mark.parametrize(
    ("properties", "match"),
    [
        ({"securty.protocol": "SSL"}, r"securty\.protocol \(unknown here\)"),
        ({"config.providers": "env"}, "not supported"),
        ({"security.protocol": "TLS"}, "security.protocol must be one of"),
        ({"security.protocol": "SASL_SSL"}, "GSSAPI, Kafka's default, is not supported"),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI"}, "GSSAPI is not"),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}, "config is missing"),
        (
            {"security.protocol": "SSL", "ssl.truststore.location": "/ca.jks"},
            r"ssl\.truststore\.location cannot be used: ssl\.truststore\.type is JKS",
        ),
        (
            {
                "security.protocol": "SSL",
                "ssl.keystore.type": "PKCS12",
                "ssl.keystore.location": "/k.p12",
                "ssl.keystore.password": SECRET,
            },
            r"ssl\.keystore\.type is PKCS12",
        ),
        (
            {
                "security.protocol": "SSL",
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": "/no-such-file.pem",
            },
            r"cannot read /no-such-file\.pem",
        ),
        (
            {"security.protocol": "SSL", "ssl.truststore.password": SECRET},
            "a PEM store has no password",
        ),
        ({"security.protocol": "SSL", "ssl.engine.factory.class": "x"}, "names a Java class"),
        ({"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1.1"}, r"TLSv1\.1 is not"),
        (
            {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "ldaps"},
            "be https or empty",
        ),
        (sasl("PLAIN", SCRAM, f'username="u" password="{SECRET}"'), "names .*ScramLoginModule"),
        (sasl("PLAIN", PLAIN, f'password="{SECRET}"'), "has no username"),
        (sasl("PLAIN", PLAIN, f'username="u" password="{SECRET}" x="1"'), "cannot use x"),
        (
            sasl("SCRAM-SHA-256", SCRAM, f'username="u" password="{SECRET}" tokenauth="true"'),
            "cannot use tokenauth",
        ),
        (sasl("OAUTHBEARER", OAUTH, f'clientSecret="{SECRET}"'), "token.endpoint.url"),
        (
            sasl("OAUTHBEARER", OAUTH, f'clientId="a" clientSecret="{SECRET}" ssl.x="1"'),
            r"cannot use ssl\.x",
        ),
    ],
)
def test_what_cannot_be_used_is_named(properties: dict[str, str], match: str) -> None:
    refused(properties, match=match)


def test_every_unusable_key_is_named_at_once() -> None:
    report = refused({"zz": "1", "config.providers": "x", "yy": SECRET}, match="Cannot use")
    assert all(key in report for key in ("zz", "yy", "config.providers"))


# sasl.jaas.config


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("m required;", {}),
        ('m required a="b";', {"a": "b"}),
        ("m REQUIRED a=b ;", {"a": "b"}),
        ('m required a = "b" c="d;e=f" ;', {"a": "b", "c": "d;e=f"}),
        ('m required // note\n a="b"; /* end */', {"a": "b"}),
        (r'm required a="\"\\\t\101";', {"a": '"\\\tA'}),
        ("m required a='b';", {"a": "b"}),
        ("m required a=123;", {"a": "123"}),
    ],
)
def test_a_login_is_read(text: str, options: dict[str, str]) -> None:
    login = jaas.parse(text)
    assert (login.module, login.options) == ("m", options)


@pytest.mark.parametrize(
    "text",
    [
        "m",
        "m;",
        "m required",
        f'm required a="{SECRET}"',
        f'm required a="{SECRET}',
        f'm wanted a="{SECRET}";',
        f'm required a "{SECRET}";',
        f'm required "a"="{SECRET}" =;',
        f'm required a="{SECRET}"; n required;',
    ],
)
def test_a_malformed_login_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(ConfigError, match=r"sasl\.jaas\.config cannot be read") as caught:
        jaas.parse(text)
    assert SECRET not in shown(caught.value)


@given(st.text("ab \"'\\=;/*#\n"))
def test_any_login_is_read_or_refused(text: str) -> None:
    with suppress(ConfigError):
        jaas.parse(text)


# Secrets


def test_redacted_shows_keys_only() -> None:
    held = Redacted(password=SECRET)
    assert SECRET not in f"{held} {held!r} {[held]} {ClientConfig(kafka_python=held)}"
    assert held == {"password": SECRET}


def test_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    client_config(sasl("PLAIN", PLAIN, f'username="u" password="{SECRET}"'))
    assert caplog.text == ""
