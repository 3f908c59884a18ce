"""OAUTHBEARER tokens (KIP-768, KIP-255), one source for both clients.

From a token endpoint by client credentials (RFC 6749, section 4.4), from a file (a `file:` URL
as endpoint), or unsecured as Kafka's development mode makes them.
"""

from __future__ import annotations

import base64
import json
import re
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final

from kshunt.backend.admin.security.redacted import Redacted
from kshunt.backend.errors import ClusterUnreachable, ConfigError, KshuntError, NotAuthorized
from kshunt.backend.secret_files import refuse_writable

EXPIRY_MARGIN_S: Final = 10.0
"""A token that has less time left is not used any more."""
REFRESH_AT: Final = 0.8
"""Part of a token's life after which the next one is fetched in the background."""
LIFETIME_S_DEFAULT: Final = 300.0
"""Assumed where neither the token nor the endpoint says it."""
UNSECURED_LIFETIME_S: Final = 3600.0
ANSWER_BYTES_MAX: Final = 1024 * 1024

_URL: Final = "sasl.oauthbearer.token.endpoint.url"
_EXTENSION: Final = "extension_"
_UNSECURED: Final = "unsecuredLogin"
_STRING_CLAIM: Final = "unsecuredLoginStringClaim_"
_NUMBER_CLAIM: Final = "unsecuredLoginNumberClaim_"
_LIST_CLAIM: Final = "unsecuredLoginListClaim_"
_UNSECURED_EXTENSION: Final = "unsecuredLoginExtension_"
_UNSECURED_OPTIONS: Final = frozenset(
    {
        "unsecuredLoginLifetimeSeconds",
        "unsecuredLoginPrincipalClaimName",
        "unsecuredLoginScopeClaimName",
    }
)
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/=-]+")
"""RFC 6750, b64token."""
_ERROR_CODE: Final = re.compile(r"[a-z_]{1,64}")
"""RFC 6749, section 5.2: the only part of a refusal that is shown."""


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token. Its repr does not have it."""

    value: str = field(repr=False)
    issued_s: float
    """When it was fetched, seconds since the epoch."""
    expires_s: float
    """Seconds since the epoch."""
    principal: str


class TokenSource:
    """Gives a valid token at any time, from any thread, and fetches the next one in time."""

    def __init__(self, fetch: Callable[[], Token], extensions: Mapping[str, str]) -> None:
        self._fetch = fetch
        self._extensions = dict(extensions)
        self._token: Token | None = None
        self._lock = threading.Lock()
        self._refreshing = threading.Lock()

    @property
    def extensions(self) -> Mapping[str, str]:
        """SASL extensions (KIP-342)."""
        return self._extensions

    @property
    def ready(self) -> bool:
        """True while `token` answers without fetching."""
        token = self._token
        return token is not None and time.time() < token.expires_s - EXPIRY_MARGIN_S

    def token(self) -> Token:
        """The current token; fetched if there is none that is valid.

        Raises:
            NotAuthorized: the endpoint refuses us.
            ClusterUnreachable: it does not answer.
        """
        with self._lock:
            if self._token is None or not self.ready:
                self._token = self._fetch()
            token = self._token
        lived_s = time.time() - token.issued_s
        if lived_s > REFRESH_AT * (token.expires_s - token.issued_s):
            self._refresh_in_background()
        return token

    def _refresh_in_background(self) -> None:
        if self._refreshing.acquire(blocking=False):
            threading.Thread(target=self._refresh, name="kshunt-token", daemon=True).start()

    def _refresh(self) -> None:
        try:
            token = self._fetch()
        except KshuntError:
            # The token in use is still valid; a caller that finds it expired will see the error.
            return
        else:
            with self._lock:
                self._token = token
        finally:
            self._refreshing.release()

    def for_librdkafka(self, _config: str) -> tuple[str, float, str, dict[str, str]]:
        """The `oauth_cb` of confluent-kafka."""
        token = self.token()
        return token.value, token.expires_s, token.principal, dict(self._extensions)


def token_source(properties: Mapping[str, str], options: Redacted) -> TokenSource:
    """The source that a client's properties and its login module's options describe.

    Raises:
        ConfigError: something is missing or unknown; no value is in the message.
    """
    _refuse_unknown(options)
    url = properties.get(_URL)
    if not url:
        if "sasl.login.callback.handler.class" in properties and not _unsecured(options):
            raise ConfigError(f"{_URL} is missing.")
        return _unsecured_source(options)
    extensions = _stripped(options, _EXTENSION)
    scheme = urllib.parse.urlsplit(url).scheme
    if scheme == "file":
        path = Path(urllib.request.url2pathname(urllib.parse.urlsplit(url).path))
        return TokenSource(lambda: _from_file(path), extensions)
    if scheme not in ("http", "https"):
        raise ConfigError(f"{_URL} is neither an https nor a file URL.")
    return TokenSource(_Endpoint.of(url, properties, options).fetch, extensions)


def _unsecured(options: Mapping[str, str]) -> bool:
    return any(name.startswith(_UNSECURED) for name in options)


def _refuse_unknown(options: Mapping[str, str]) -> None:
    prefixes = (_EXTENSION, _STRING_CLAIM, _NUMBER_CLAIM, _LIST_CLAIM, _UNSECURED_EXTENSION)
    known = {"clientId", "clientSecret", "scope"} | _UNSECURED_OPTIONS
    unknown = [n for n in options if n not in known and not n.startswith(prefixes)]
    if unknown:
        raise ConfigError(f"sasl.jaas.config: cannot use {', '.join(sorted(unknown))}.")


def _stripped(options: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {n.removeprefix(prefix): v for n, v in options.items() if n.startswith(prefix)}


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the client's secret to another host."""

    def redirect_request(self, *_: Any) -> None:
        return None


@dataclass(frozen=True, slots=True)
class _Endpoint:
    """A token endpoint and how to ask it."""

    url: str
    authorization: str = field(repr=False)
    scope: str | None
    timeout_s: float

    @classmethod
    def of(cls, url: str, properties: Mapping[str, str], options: Mapping[str, str]) -> _Endpoint:
        """Kafka 4.1 takes the credentials from keys of their own (KIP-1139), or from the login."""
        prefix = "sasl.oauthbearer.client.credentials.client"
        client_id = properties.get(f"{prefix}.id") or options.get("clientId")
        secret = properties.get(f"{prefix}.secret") or options.get("clientSecret")
        if not client_id or not secret:
            raise ConfigError("OAUTHBEARER needs clientId and clientSecret in sasl.jaas.config.")
        if properties.get("sasl.oauthbearer.header.urlencode", "false").lower() == "true":
            client_id, secret = map(urllib.parse.quote_plus, (client_id, secret))
        basic = base64.b64encode(f"{client_id}:{secret}".encode()).decode()
        scope = properties.get("sasl.oauthbearer.scope") or options.get("scope")
        return cls(url, f"Basic {basic}", scope, _timeout_s(properties))

    @property
    def host(self) -> str:
        """For messages: the URL may hold more than should be shown."""
        return urllib.parse.urlsplit(self.url).hostname or ""

    def fetch(self) -> Token:
        """Ask for a token."""
        form = {"grant_type": "client_credentials"} | ({"scope": self.scope} if self.scope else {})
        request = urllib.request.Request(
            self.url,
            data=urllib.parse.urlencode(form).encode(),
            headers={"Authorization": self.authorization, "Accept": "application/json"},
        )
        opener = urllib.request.build_opener(_NoRedirect)
        try:
            with opener.open(request, timeout=self.timeout_s) as response:
                return self._token(response.read(ANSWER_BYTES_MAX))
        except urllib.error.HTTPError as refusal:
            with refusal:
                raise self._refused(refusal) from None
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", None) or type(error).__name__
            raise ClusterUnreachable(
                f"The token endpoint at {self.host} cannot be reached: {reason}."
            ) from None

    def _refused(self, refusal: urllib.error.HTTPError) -> KshuntError:
        code = _json(refusal.read(ANSWER_BYTES_MAX)).get("error")
        shown = f" ({code})" if isinstance(code, str) and _ERROR_CODE.fullmatch(code) else ""
        text = f"The token endpoint at {self.host} answered HTTP {refusal.code}{shown}."
        if 400 <= refusal.code < 500:
            return NotAuthorized(
                text, advice="Check clientId and clientSecret in sasl.jaas.config."
            )
        return ClusterUnreachable(text)

    def _token(self, body: bytes) -> Token:
        answer = _json(body)
        value = answer.get("access_token") or answer.get("id_token")
        if not isinstance(value, str):
            raise ClusterUnreachable(f"The token endpoint at {self.host} did not send a token.")
        lifetime = answer.get("expires_in")
        return _checked(value, float(lifetime) if isinstance(lifetime, int | float) else None)


def _timeout_s(properties: Mapping[str, str]) -> float:
    for key in ("sasl.login.read.timeout.ms", "sasl.login.connect.timeout.ms"):
        if value := properties.get(key):
            if not value.isdecimal() or int(value) == 0:
                raise ConfigError(f"{key} is not a number of milliseconds.")
            return int(value) / 1000
    return EXPIRY_MARGIN_S


def _json(body: bytes) -> Mapping[str, Any]:
    try:
        answer = json.loads(body)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def _from_file(path: Path) -> Token:
    refuse_writable(path, "The token's file")
    try:
        return _checked(path.read_text(encoding="ascii").strip(), None)
    except (OSError, UnicodeDecodeError):
        raise ConfigError(f"{_URL}: cannot read a token from {path}.") from None


def _checked(value: str, lifetime_s: float | None) -> Token:
    """A token as both clients can send it; its end and its principal by its own claims."""
    if not _TOKEN.fullmatch(value):
        raise ConfigError(
            "The OAUTHBEARER token is not valid: it has characters that a token cannot have."
        )
    now_s = time.time()
    claims = _claims(value)
    expires, subject = claims.get("exp"), claims.get("sub")
    if not isinstance(expires, int | float):
        expires = now_s + (LIFETIME_S_DEFAULT if lifetime_s is None else lifetime_s)
    return Token(value, now_s, float(expires), subject if isinstance(subject, str) else "")


def _claims(token: str) -> Mapping[str, Any]:
    """A JWT's claims; an opaque token has none."""
    parts = token.split(".")
    if len(parts) < 2:
        return {}
    try:
        return _json(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        return {}


def _unsecured_source(options: Mapping[str, str]) -> TokenSource:
    claim = options.get("unsecuredLoginPrincipalClaimName", "sub")
    if not options.get(_STRING_CLAIM + claim):
        raise ConfigError(
            f"OAUTHBEARER needs {_URL}, or {_STRING_CLAIM}{claim} for an unsecured token."
        )
    lifetime = options.get("unsecuredLoginLifetimeSeconds", str(UNSECURED_LIFETIME_S))
    try:
        numbers = {n: float(v) for n, v in _stripped(options, _NUMBER_CLAIM).items()}
        lifetime_s = float(lifetime)
    except ValueError:
        raise ConfigError(
            "sasl.jaas.config: a number in the unsecured token is not valid."
        ) from None
    claims: dict[str, Any] = {**_stripped(options, _STRING_CLAIM), **numbers}
    for name, text in _stripped(options, _LIST_CLAIM).items():
        # The first character separates the others: "|one|two".
        claims[name] = text[1:].split(text[0]) if text else []

    def make() -> Token:
        now_s = time.time()
        dated = {"iat": now_s, "exp": now_s + lifetime_s, **claims}
        value = f"{_part({'alg': 'none'})}.{_part(dated)}."
        return Token(value, now_s, float(dated["exp"]), str(claims[claim]))

    return TokenSource(make, _stripped(options, _UNSECURED_EXTENSION))


def _part(content: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")
