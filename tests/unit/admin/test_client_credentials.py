"""Certificates, keys and tokens of `--command-config`, and that none of them is shown."""

import base64
import http.server
import json
import os
import ssl
import subprocess
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from kshunt.backend.admin.security.client_properties import ClientConfig, client_config
from kshunt.backend.admin.security.oauth import Token, TokenSource
from kshunt.backend.errors import ClusterUnreachable, ConfigError, KshuntError, NotAuthorized
from kshunt.backend.pipeline.kernels.exact_times import settings_of
from tests.support.client_properties import OAUTH, SECRET, refused, sasl, shown

# TLS


NO_CERTIFICATE = "-----BEGIN CERTIFICATE-----AAAA-----END CERTIFICATE-----"


@dataclass(frozen=True)
class Pems:
    """A certificate that signs itself, its key, and its key under a password."""

    certificate: str
    key: str
    encrypted_key: str


@pytest.fixture(scope="module")
def pems(tmp_path_factory: pytest.TempPathFactory) -> Pems:
    """Made by openssl, once."""
    folder = tmp_path_factory.mktemp("pems")

    def openssl(*args: str) -> None:
        subprocess.run(["openssl", *args], cwd=folder, check=True, capture_output=True)

    openssl(
        "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key", "-out", "certificate",
        "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "2",
    )  # fmt: skip
    openssl("pkcs8", "-topk8", "-in", "key", "-out", "locked", "-passout", f"pass:{SECRET}")
    names = ("certificate", "key", "locked")
    return Pems(*((folder / name).read_text() for name in names))


def in_one_line(pem: str) -> str:
    """A PEM block as a properties file has it: blanks where the line ends were."""
    return " ".join(pem.split("\n"))


def shakes_hands(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> None:
    """A handshake in memory; raises what the client raises."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=name),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert ends[0].version() is not None
    assert ends[1].getpeercert() is not None or server.verify_mode == ssl.CERT_NONE


def server_context(pems: Pems, folder: Path, *, ask: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    (folder / "server.pem").write_text(pems.key + pems.certificate)
    context.load_cert_chain(folder / "server.pem")
    if ask:
        context.load_verify_locations(cadata=pems.certificate)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def stores(pems: Pems, folder: Path, how: str) -> dict[str, str]:
    """The same stores, in a file or in the properties, with and without a password."""
    (folder / "ca.pem").write_text(pems.certificate)
    (folder / "me.pem").write_text(pems.key + pems.certificate)
    (folder / "locked.pem").write_text(pems.encrypted_key + pems.certificate)
    trusted = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(folder / "ca.pem")}
    mine = {"ssl.keystore.type": "PEM"}
    if how == "inline":
        trusted = {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": in_one_line(pems.certificate),
        }
        mine |= {
            "ssl.keystore.key": in_one_line(pems.encrypted_key),
            "ssl.keystore.certificate.chain": in_one_line(pems.certificate),
            "ssl.key.password": SECRET,
        }
    elif how == "file":
        mine["ssl.keystore.location"] = str(folder / "me.pem")
    else:
        mine |= {
            "ssl.keystore.location": str(folder / "locked.pem"),
            "ssl.key.password": SECRET,
        }
    return {"security.protocol": "SSL", **trusted, **mine}


@pytest.mark.parametrize("how", ["file", "locked file", "inline"])
def test_pem_stores_make_both_clients_trust_and_be_trusted(
    pems: Pems, tmp_path: Path, how: str
) -> None:
    config = client_config(stores(pems, tmp_path, how))
    assert config.ssl_context is not None
    shakes_hands(server_context(pems, tmp_path, ask=True), config.ssl_context, "localhost")
    # librdkafka reads the certificates and the key when the client is made.
    AdminClient({"bootstrap.servers": "127.0.0.1:9", "log_level": 0, **config.librdkafka})
    assert SECRET not in repr(config)


def test_the_brokers_name_is_checked_unless_the_algorithm_is_empty(
    pems: Pems, tmp_path: Path
) -> None:
    properties = stores(pems, tmp_path, "file")
    server = server_context(pems, tmp_path, ask=False)
    strict = client_config(properties)
    assert strict.ssl_context is not None
    assert strict.librdkafka["ssl.endpoint.identification.algorithm"] == "https"
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shakes_hands(server, strict.ssl_context, "elsewhere")
    lax = client_config(properties | {"ssl.endpoint.identification.algorithm": ""})
    assert lax.ssl_context is not None
    assert lax.librdkafka["ssl.endpoint.identification.algorithm"] == "none"
    shakes_hands(server, lax.ssl_context, "elsewhere")


@pytest.mark.parametrize("how", ["file", "locked", "inline"])
def test_a_copy_of_records_takes_the_stores_along(pems: Pems, tmp_path: Path, how: str) -> None:
    """Records with a timestamp of 0 go by kafka-python, with librdkafka's settings."""
    properties = stores(pems, tmp_path, how)
    clients = {**client_config(properties).librdkafka, "bootstrap.servers": "a:1"}
    client = settings_of(clients)["ssl_context"]
    assert client.check_hostname
    shakes_hands(server_context(pems, tmp_path, ask=True), client, "localhost")


def test_without_a_trust_store_a_stranger_is_not_trusted(pems: Pems, tmp_path: Path) -> None:
    config = client_config({"security.protocol": "ssl"})
    assert config.ssl_context is not None
    assert config.ssl_context.minimum_version == ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLCertVerificationError):
        shakes_hands(server_context(pems, tmp_path, ask=False), config.ssl_context, "localhost")


def test_tls_versions_are_kept_to(pems: Pems, tmp_path: Path) -> None:
    only = stores(pems, tmp_path, "file") | {"ssl.enabled.protocols": "TLSv1.3"}
    context = client_config(only).ssl_context
    assert context is not None
    assert context.minimum_version == ssl.TLSVersion.TLSv1_3


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"ssl.key.password": "wrong"}, "key store cannot be used"),
        ({"ssl.key.password": ""}, "key store cannot be used"),
        ({"ssl.keystore.certificate.chain": ""}, "must be given together"),
        ({"ssl.keystore.certificate.chain": "none"}, "chain does not hold PEM"),
        ({"ssl.truststore.certificates": "none"}, "certificates does not hold PEM"),
        (
            {"ssl.truststore.certificates": NO_CERTIFICATE},
            "trust store cannot be used",
        ),
        ({"ssl.truststore.type": ""}, r"ssl\.truststore\.type is"),
    ],
)
def test_stores_that_do_not_open_are_refused(
    pems: Pems, tmp_path: Path, change: dict[str, str], match: str
) -> None:
    report = refused(stores(pems, tmp_path, "inline") | change, match=match)
    assert pems.encrypted_key.split("\n")[3] not in report


def test_a_key_in_the_properties_leaves_no_file_and_no_open_descriptor(
    pems: Pems, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    properties = stores(pems, tmp_path, "inline")
    before = set(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else set()
    client_config(properties)
    if before:
        assert set(os.listdir("/proc/self/fd")) == before
    assert list((tmp_path / "tmp").iterdir()) == []


# OAUTHBEARER


@dataclass
class Endpoint:
    """A token endpoint that answers as it is told, and remembers what it was asked."""

    url: str
    answer: Callable[[], tuple[int, dict[str, Any]]]
    asked: list[tuple[str, dict[str, list[str]]]] = field(default_factory=list)


@contextmanager
def endpoint(answer: Callable[[], tuple[int, dict[str, Any]]]) -> Iterator[Endpoint]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = self.rfile.read(int(self.headers["Content-Length"])).decode()
            served.asked.append((self.headers["Authorization"], urllib.parse.parse_qs(form)))
            status, document = served.answer()
            self.send_response(status)
            if status == 302:
                self.send_header("Location", served.url)
            self.end_headers()
            self.wfile.write(json.dumps(document).encode())

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        served = Endpoint(f"http://127.0.0.1:{server.server_address[1]}/token", answer)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield served
        finally:
            server.shutdown()
            thread.join()


def jwt(**claims: Any) -> str:
    parts = ({"alg": "none"}, claims)
    encoded = [base64.urlsafe_b64encode(json.dumps(p).encode()).decode().rstrip("=") for p in parts]
    return ".".join((*encoded, "sig"))


def oauth(url: str, options: str = "", **more: str) -> ClientConfig:
    login = f'clientId="me" clientSecret="{SECRET}" {options}'
    properties = sasl("OAUTHBEARER", OAUTH, login)
    extra = {key.replace("__", "."): value for key, value in more.items()}
    return client_config(properties | {"sasl.oauthbearer.token.endpoint.url": url} | extra)


def tokens(config: ClientConfig) -> TokenSource:
    assert config.tokens is not None
    return config.tokens


def test_a_token_is_fetched_once_and_given_to_both_clients() -> None:
    token = jwt(sub="alice", exp=time.time() + 3600)
    with endpoint(lambda: (200, {"access_token": token})) as served:
        source = tokens(oauth(served.url, 'scope="kafka" extension_traceId="1"'))
        first = source.token()
        assert source.ready
        value, expires_s, principal, extensions = source.for_librdkafka("")
    assert (first.value, value, principal) == (token, token, "alice")
    assert expires_s == pytest.approx(time.time() + 3600, abs=30)
    assert extensions == {"traceId": "1"}
    ((authorization, form),) = served.asked
    assert base64.b64decode(authorization.removeprefix("Basic ")).decode() == f"me:{SECRET}"
    assert form == {"grant_type": ["client_credentials"], "scope": ["kafka"]}
    assert token not in repr(first)


def test_credentials_from_keys_of_their_own_are_encoded_when_asked() -> None:
    with endpoint(lambda: (200, {"access_token": "opaque", "expires_in": 60})) as served:
        source = tokens(
            oauth(
                served.url,
                sasl__oauthbearer__client__credentials__client__id="a b",
                sasl__oauthbearer__client__credentials__client__secret="p:%",
                sasl__oauthbearer__header__urlencode="true",
                sasl__oauthbearer__scope="s",
            )
        )
        token = source.token()
    assert token.expires_s == pytest.approx(time.time() + 60, abs=10)
    authorization, form = served.asked[0]
    assert base64.b64decode(authorization.removeprefix("Basic ")) == b"a+b:p%3A%25"
    assert form["scope"] == ["s"]


def test_a_token_near_its_end_is_renewed_in_the_background_and_an_expired_one_at_once() -> None:
    made: list[Token] = []
    renewed = threading.Event()

    def make(lifetime_s: float, age_s: float) -> Token:
        now_s = time.time()
        made.append(Token(str(len(made)), now_s - age_s, now_s + lifetime_s, "p"))
        if len(made) > 1:
            renewed.set()
        return made[-1]

    source = TokenSource(lambda: make(100, 900), {})
    assert source.token().value == "0"
    assert renewed.wait(10)
    expired = TokenSource(lambda: make(1, 0), {})
    first = expired.token().value
    assert not expired.ready
    assert expired.token().value != first


@pytest.mark.parametrize(
    ("status", "document", "kind", "match"),
    [
        (
            401,
            {"error": "invalid_client", "error_description": SECRET},
            NotAuthorized,
            "401 .invalid_client",
        ),
        (400, {"error": f"<{SECRET}>"}, NotAuthorized, "HTTP 400"),
        (302, {}, ClusterUnreachable, "HTTP 302"),
        (503, {}, ClusterUnreachable, "HTTP 503"),
        (200, {}, ClusterUnreachable, "did not send a token"),
        (
            200,
            {"access_token": f"bad\x01{SECRET}"},
            ConfigError,
            "characters that a token cannot have",
        ),
    ],
)
def test_a_refusal_shows_no_secret_and_is_not_followed_elsewhere(
    status: int, document: dict[str, Any], kind: type[KshuntError], match: str
) -> None:
    with endpoint(lambda: (status, document)) as served:
        source = tokens(oauth(served.url))
        with pytest.raises(kind, match=match) as caught:
            source.token()
    assert SECRET not in shown(caught.value)
    assert len(served.asked) == 1


def test_an_endpoint_that_is_not_there_is_unreachable() -> None:
    with endpoint(lambda: (200, {})) as served:
        url = served.url
    with pytest.raises(ClusterUnreachable, match=r"127\.0\.0\.1 cannot be reached") as caught:
        tokens(oauth(url)).token()
    assert SECRET not in shown(caught.value)


def test_a_token_from_a_file(tmp_path: Path) -> None:
    token = jwt(sub="bob", exp=time.time() + 900)
    (tmp_path / "token.jwt").write_text(token + "\n")
    source = tokens(oauth((tmp_path / "token.jwt").as_uri()))
    assert source.token().principal == "bob"
    with pytest.raises(ConfigError, match="cannot read a token from"):
        tokens(oauth((tmp_path / "gone.jwt").as_uri())).token()
    with pytest.raises(ConfigError, match="neither an https nor a file"):
        oauth("ftp://x/y")


def test_an_unsecured_token_has_kafkas_claims() -> None:
    options = (
        'unsecuredLoginStringClaim_sub="dev" unsecuredLoginNumberClaim_n="2.5" '
        'unsecuredLoginListClaim_scope="|a|b" unsecuredLoginLifetimeSeconds="60" '
        'unsecuredLoginExtension_x="y"'
    )
    source = tokens(client_config(sasl("OAUTHBEARER", OAUTH, options)))
    token = source.token()
    header, claims, signature = token.value.split(".")
    assert json.loads(base64.urlsafe_b64decode(header + "==")) == {"alg": "none"}
    decoded = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
    assert (decoded["sub"], decoded["n"], decoded["scope"]) == ("dev", 2.5, ["a", "b"])
    assert decoded["exp"] - decoded["iat"] == pytest.approx(60)
    assert signature == ""
    assert source.extensions == {"x": "y"}
