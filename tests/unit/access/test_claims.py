"""Signed claims of an identity provider: real keys, real signatures, and all that is wrong."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from kshunt.backend.access.oidc import REREAD_S, ClaimsCheck, Provider
from kshunt.backend.access.roles import Role
from kshunt.backend.errors import ConfigError
from tests.support.clocks import StoppedClock

ISSUER, AUDIENCE = "https://id.example.org/realm", "kshunt"
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER = rsa.generate_private_key(public_exponent=65537, key_size=2048)
CURVE = ec.generate_private_key(ec.SECP256R1())


def jwks(**keys: Any) -> str:
    """A set of public keys by their ids."""
    entries = []
    for kid, key in keys.items():
        rsa_key = isinstance(key, rsa.RSAPrivateKey)
        algorithm: Any = jwt.algorithms.RSAAlgorithm if rsa_key else jwt.algorithms.ECAlgorithm
        entry = json.loads(algorithm.to_jwk(key.public_key()))
        entries.append({**entry, "kid": kid, "alg": "RS256" if rsa_key else "ES256", "use": "sig"})
    return json.dumps({"keys": entries})


def signed(key: Any = RSA, kid: str = "one", algorithm: str = "RS256", **claims: Any) -> str:
    """A token; a claim of None is left out."""
    plain = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "ada",
        "exp": int(time.time()) + 600,
        "roles": ["operator"],
    }
    present = {name: value for name, value in {**plain, **claims}.items() if value is not None}
    return jwt.encode(present, key, algorithm, headers={"kid": kid})


def write(path: str, content: str | None) -> None:
    """A file of that content, or none."""
    if content is None:
        Path(path).unlink()
    else:
        Path(path).write_text(content)


@pytest.fixture
def provider(tmp_path: Path) -> Provider:
    path = tmp_path / "jwks.json"
    path.write_text(jwks(one=RSA, two=CURVE))
    return Provider(ISSUER, AUDIENCE, str(path))


@pytest.fixture
async def claims(provider: Provider) -> ClaimsCheck:
    found = ClaimsCheck(provider, StoppedClock())
    await found.start()
    return found


async def test_whom_it_vouches_for_comes_in(claims: ClaimsCheck) -> None:
    for text in (signed(), signed(CURVE, "two", "ES256"), signed(aud=["other", AUDIENCE])):
        caller = await claims.caller(text)
        assert caller is not None
        assert (caller.name, caller.role) == ("ada", Role.OPERATOR)


async def test_the_highest_role_counts_wherever_it_stands(provider: Provider) -> None:
    mapped = {"kafka-oncall": Role.OPERATOR, "kafka-owner": Role.ADMIN}
    deep = replace(provider, role_claim="realm_access.roles", roles=mapped)
    claims = ClaimsCheck(deep, StoppedClock())
    await claims.start()
    held = {"roles": ["kafka-owner", "kafka-oncall", "admin", 7]}
    caller = await claims.caller(signed(realm_access=held))
    assert caller is not None
    assert caller.role is Role.ADMIN
    for nothing in ({"roles": ["admin"]}, {"roles": "admin"}, ["roles"], "roles", None):
        assert await claims.caller(signed(realm_access=nothing)) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"iss": "https://id.example.org/other"},
        {"iss": None},
        {"aud": "another"},
        {"aud": None},
        {"sub": None},
        {"sub": "a\nb"},
        {"sub": ""},
        {"sub": "  "},
        {"sub": " ada"},
        {"sub": "ada "},
        {"sub": "a\u202eb"},
        {"sub": "\u200b"},
        {"sub": 7},
        {"sub": ["ada"]},
        {"sub": {"ada": 1}},
        {"sub": True},
        {"sub": "x" * 256},
        {"exp": None},
        {"exp": 1_000},
        {"nbf": 10**11},
        {"roles": []},
        {"roles": ["king"]},
        {"roles": {"operator": True}},
        {"kid": "unknown"},
        {"key": OTHER},
    ],
    ids=lambda wrong: "-".join(wrong),
)
async def test_nobody_else_does(claims: ClaimsCheck, wrong: dict[str, Any]) -> None:
    assert await claims.caller(signed(**wrong)) is None


async def test_two_long_subjects_are_two_people(claims: ClaimsCheck) -> None:
    one, two = "x" * 254 + "a", "x" * 254 + "b"
    callers = [await claims.caller(signed(sub=subject)) for subject in (one, two)]
    assert [caller.name for caller in callers if caller] == [one, two]


async def test_keys_that_others_can_write_are_not_used(provider: Provider) -> None:
    os.chmod(provider.keys, 0o666)
    with pytest.raises(ConfigError, match="Other users can write the file of keys"):
        await ClaimsCheck(provider, StoppedClock()).start()


async def test_a_shared_secret_signs_nothing(claims: ClaimsCheck) -> None:
    # The public key as a secret is the oldest trick; `none` is the other one.
    plain = {"iss": ISSUER, "aud": AUDIENCE, "sub": "eve", "exp": 2**40, "roles": ["admin"]}
    secret = "a secret that is long enough for its algorithm"
    assert await claims.caller(jwt.encode(plain, secret, "HS256", headers={"kid": "one"})) is None
    assert await claims.caller(jwt.encode(plain, "", "none", headers={"kid": "one"})) is None
    for text in ("", "x", "a.b.c", "...", "é.é.é", signed()[:-4], signed() + "x", "." * 9_000):
        assert await claims.caller(text) is None


class Keys(BaseHTTPRequestHandler):
    content = b""
    asked = 0
    status = 200

    def do_GET(self) -> None:
        type(self).asked += 1
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(self.content)

    def log_message(self, format: str, *args: Any) -> None:
        return


@pytest.fixture
def keys() -> Iterator[tuple[type[Keys], str]]:
    """What serves a set of keys, and its address."""
    served = type("Served", (Keys,), {"content": jwks(one=RSA).encode()})
    with HTTPServer(("127.0.0.1", 0), served) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield served, f"http://127.0.0.1:{server.server_port}/keys"
        server.shutdown()
        thread.join()


async def test_keys_are_read_anew_when_the_provider_changes_them(
    provider: Provider, keys: tuple[type[Keys], str]
) -> None:
    served, url = keys
    clock = StoppedClock()
    claims = ClaimsCheck(replace(provider, keys=url), clock)
    await claims.start()
    served.content = jwks(new=OTHER).encode()
    assert await claims.caller(signed(OTHER, "new")) is None
    clock.ms += round(REREAD_S * 1000)
    assert await claims.caller(signed(OTHER, "new")) is not None
    assert await claims.caller(signed()) is None
    asked = served.asked
    for _ in range(5):
        assert await claims.caller(signed(kid="unknown")) is None
    assert served.asked == asked


async def test_keys_that_were_read_count_while_the_provider_is_away(
    provider: Provider, keys: tuple[type[Keys], str]
) -> None:
    served, url = keys
    clock = StoppedClock()
    claims = ClaimsCheck(replace(provider, keys=url), clock)
    await claims.start()
    served.status = 500
    clock.ms += round(REREAD_S * 1000)
    assert await claims.caller(signed(kid="unknown")) is None
    assert await claims.caller(signed()) is not None


@pytest.mark.parametrize(
    "content", ["", "{}", "[]", '{"keys": []}', '{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}', "{"]
)
async def test_what_is_no_set_of_keys_stops_the_start(provider: Provider, content: str) -> None:
    write(provider.keys, content)
    with pytest.raises(ConfigError):
        await ClaimsCheck(provider, StoppedClock()).start()
    write(provider.keys, None)
    with pytest.raises(ConfigError, match="cannot be read"):
        await ClaimsCheck(provider, StoppedClock()).start()
