"""Tokens of an identity provider: only its own, for this audience, by the agreed algorithms, in time."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.server
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from quire.errors import InvalidInput, Unauthenticated
from quire.server.auth.jwt_tokens import JwtTokens
from quire.server.config import JwtConfig

ISSUER, AUDIENCE = "https://login.example.org", "quire"
PRIVATE = ec.generate_private_key(ec.SECP256R1())
OTHER = ec.generate_private_key(ec.SECP256R1())


def public(kid: str, key: Any = PRIVATE) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(key.public_key()))
    return {**told, "kid": kid, "alg": "ES256", "use": "sig"}


def token(key: Any = PRIVATE, alg: str = "ES256", kid: str | None = "k1", **claims: Any) -> str:
    now = int(time.time())
    said = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ada", "exp": now + 60, "roles": ["write"], **claims}
    said = {name: value for name, value in said.items() if value is not None}
    return jwt.encode(said, key, algorithm=alg, headers={"kid": kid} if kid else {})


@pytest.fixture
def config(tmp_path: Path) -> JwtConfig:
    (tmp_path / "jwks.json").write_text(json.dumps({"keys": [public("k1")]}))
    return JwtConfig(ISSUER, AUDIENCE, str(tmp_path / "jwks.json"))


def test_a_token_stands_for_its_actor(config: JwtConfig) -> None:
    actor = JwtTokens(config).actor(token())
    assert (actor.name, actor.may("write"), actor.may("admin")) == ("ada", True, False)
    assert not JwtTokens(config).actor(token(roles=None)).may("read"), "without a role it may do nothing"
    assert JwtTokens(config).actor(token(roles="read admin")).may("admin")


def test_roles_of_the_provider_have_names_here(config: JwtConfig, tmp_path: Path) -> None:
    named = JwtConfig(ISSUER, AUDIENCE, config.jwks, roles_claim="groups", role_names={"data-team": "write"})
    assert JwtTokens(named).actor(token(groups=["data-team"])).may("write")


WRONG = {
    "another issuer": {"iss": "https://evil.example.org"},
    "another audience": {"aud": "another"},
    "expired": {"exp": int(time.time()) - 3600},
    "not yet valid": {"nbf": int(time.time()) + 3600},
    "without an end": {"exp": None},
    "without an audience": {"aud": None},
    "without an issuer": {"iss": None},
    "without a subject": {"sub": None},
    "an empty subject": {"sub": ""},
    "a subject of two lines": {"sub": "a\nb"},
    "another key": {"key": OTHER},
    "an unknown key": {"kid": "k2"},
    "no key": {"kid": None},
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_anything_else_lets_nobody_in(config: JwtConfig, wrong: dict[str, Any]) -> None:
    with pytest.raises(Unauthenticated):
        JwtTokens(config).actor(token(**wrong))


def test_the_token_does_not_choose_its_algorithm(config: JwtConfig) -> None:
    now = int(time.time())
    said = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ada", "exp": now + 60}
    by_nobody = jwt.encode(said, None, algorithm="none", headers={"kid": "k1"})  # type: ignore[arg-type]
    by_public_key = signed_by_what_is_public(said, Path(config.jwks).read_bytes())
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    by_rsa = jwt.encode(said, other, algorithm="RS256", headers={"kid": "k1"})
    for text in (by_nobody, by_public_key, by_rsa, "a.b.c", "", "x" * 1000, token() + "x"):
        with pytest.raises(Unauthenticated):
            JwtTokens(config).actor(text)


def signed_by_what_is_public(said: dict[str, Any], secret: bytes) -> str:
    """A token by HS256 whose secret is the provider's public key."""

    def part(value: bytes) -> bytes:
        return base64.urlsafe_b64encode(value).rstrip(b"=")

    head = json.dumps({"alg": "HS256", "typ": "JWT", "kid": "k1"}).encode()
    text = part(head) + b"." + part(json.dumps(said).encode())
    return (text + b"." + part(hmac.digest(secret, text, hashlib.sha256))).decode()


@pytest.mark.parametrize("algorithms", [("HS256",), ("none",), ()])
def test_only_algorithms_with_a_private_key_can_be_configured(config: JwtConfig, algorithms: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInput):
        JwtTokens(JwtConfig(ISSUER, AUDIENCE, config.jwks, algorithms=algorithms))
    with pytest.raises(InvalidInput):
        JwtTokens(JwtConfig("", AUDIENCE, config.jwks))


class Provider:
    """A provider that counts how often it is asked."""

    def __init__(self) -> None:
        self.keys, self.asked = [public("k1")], 0
        provider = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.asked += 1
                body = json.dumps({"keys": provider.keys}).encode()
                self.send_response(200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/jwks"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def provider() -> Iterator[Provider]:
    found = Provider()
    yield found
    found.server.shutdown()


def test_keys_are_fetched_once_and_made_up_tokens_ask_no_more(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = JwtTokens(JwtConfig(ISSUER, AUDIENCE, provider.url))
    for _ in range(3):
        assert tokens.actor(token()).name == "ada"
    for n in range(20):
        with pytest.raises(Unauthenticated):
            tokens.actor(token(kid=f"made-up-{n}"))
    assert provider.asked == 1
    provider.keys = [public("k2", OTHER)]
    monkeypatch.setattr("quire.server.auth.jwt_tokens.AGAIN", 0.0)
    assert tokens.actor(token(OTHER, kid="k2")).name == "ada", "a new key is found"
    with pytest.raises(Unauthenticated):
        tokens.actor(token())


def test_a_provider_that_is_away_changes_nothing(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = JwtTokens(JwtConfig(ISSUER, AUDIENCE, provider.url))
    tokens.actor(token())
    provider.server.shutdown()
    provider.server.server_close()
    monkeypatch.setattr("quire.server.auth.jwt_tokens.FRESH", -1.0)
    assert tokens.actor(token()).name == "ada"
