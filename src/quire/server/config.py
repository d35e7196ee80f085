"""What a server is told: its lakes, where it listens, who may come in, and its bounds. From options and a TOML file."""

from __future__ import annotations

import ipaddress
import re
import tomllib
from pathlib import Path
from typing import Any, Literal

import msgspec

from quire.errors import InvalidInput

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class SessionsConfig(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The role by which clients of a lake in S3 read files of its tables, for a short time each."""

    role: str
    """Its ARN. It bounds what any session may do."""
    endpoint: str | None = None
    """The token service (STS): that of the store, or of AWS, when it is not given."""
    seconds: int = 3600
    external_id: str | None = None


class LakeConfig(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One lake of a server."""

    uri: str
    storage_options: dict[str, str] = {}
    external: list[str] = []
    read_only: bool = False
    client_options: dict[str, str] = {}
    """Settings of the store for clients that read and write files themselves, such as those of Lance: what they are
    told, and never what the server itself uses.
    """
    client_command: list[str] = []
    """A program that prints more such settings as one object of JSON, such as credentials of a session. Where it says
    `expires_at_millis` it is run again in time.
    """
    sessions: SessionsConfig | None = None


class Limits(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Bounds of what clients may ask for at once."""

    in_flight: int = 1024
    """Requests that are worked on at once."""
    writes_per_actor: int = 16
    requests_per_actor: int = 64
    requests_per_second: float = 0.0
    """Of one actor, in the long run; 0 for no such bound."""
    followers: int = 1024
    """Clients that wait for changes at once."""
    followers_per_actor: int = 256
    connections: int = 8192
    """What is opened beyond it is answered 503 and closed."""
    threads: int = 128
    body_bytes: int = 64 << 20
    """Of a body in JSON. What is sent as Arrow goes to staging piece by piece and may be of any size."""
    idle_seconds: float = 30.0
    """How long a client may send nothing in the middle of a body."""
    transactions_per_actor: int = 16
    transaction_idle_seconds: float = 60.0
    transaction_seconds: float = 600.0
    sql_memory: int = 1 << 30
    sql_threads: int = 2
    sql_seconds: float = 30.0
    page_rows: int = 10_000
    """Rows of one page of JSON, at most."""
    shutdown_seconds: float = 30.0


class JwtConfig(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The identity provider whose tokens are accepted."""

    issuer: str
    audience: str
    jwks: str
    """Where its keys are: a URL or a file."""
    algorithms: tuple[str, ...] = ("RS256", "ES256", "EdDSA")
    actor_claim: str = "sub"
    roles_claim: str = "roles"
    role_names: dict[str, str] = {}
    """What roles of the provider are called here: read, write, admin."""
    leeway: float = 30.0
    """Seconds by which clocks may differ."""


class AuthConfig(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """How clients say who they are."""

    keys: str | None = None
    """The file of API keys, which `quire token` writes."""
    jwt: JwtConfig | None = None


class Config(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """All of it."""

    lakes: dict[str, LakeConfig] = {}
    host: str = "127.0.0.1"
    port: int = 8080
    read_only: bool = False
    open: bool = False
    """Whether everybody who reaches the server may do everything, also on a public address."""
    auth: AuthConfig | None = None
    private: bool = False
    """Whether only the browser comes in that has the one-time word, from this machine: `quire ui`."""
    limits: Limits = Limits()
    only: Literal["lance"] | None = None
    """Answer for one face alone."""


def read(path: str | Path) -> Config:
    """The configuration that a TOML file holds."""
    try:
        text = Path(path).read_text("utf-8")
        return msgspec.convert(tomllib.loads(text), Config)
    except FileNotFoundError:
        raise InvalidInput(f"There is no file {str(path)!r}.", next="Check the path given to --config.") from None
    except OSError as error:
        raise InvalidInput(f"{str(path)!r} cannot be read: {error.strerror}.", next="Check the permissions.") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidInput(f"{str(path)!r} is not TOML: {error}.", next="Correct the file.") from None
    except msgspec.ValidationError as error:
        raise InvalidInput(f"{str(path)!r}: {error}.", next="Correct the file; the guide lists the settings.") from None


def checked(config: Config) -> Config:
    """The configuration, if a server can run with it."""
    if not config.lakes:
        raise InvalidInput("The server has no lake.", next="Name one: quire serve demo=./demo.")
    for name in config.lakes:
        if not NAME.fullmatch(name):
            raise InvalidInput(
                f"{name!r} cannot name a lake.", next="Use letters, digits, '_', '-' and '.', at most 64 of them."
            )
    if not 0 <= config.port <= 65535:
        raise InvalidInput(f"{config.port} is not a port.", next="Use a number from 0 to 65535.")
    for field in Limits.__struct_fields__:
        value: Any = getattr(config.limits, field)
        if value < 0 or (value == 0 and field != "requests_per_second"):
            raise InvalidInput(f"The limit {field} must be more than 0, not {value}.", next="Correct it.", field=field)
    if config.auth is not None and config.auth.keys is None and config.auth.jwt is None:
        raise InvalidInput("There is a section auth that lets nobody in.", next="Set auth.keys or auth.jwt.")
    if config.private and (config.auth is not None or config.open or not is_loopback(config.host)):
        raise InvalidInput(
            "A private server answers one browser on this machine.", next="Leave out auth and open, and use 127.0.0.1."
        )
    if config.auth is not None and config.open:
        raise InvalidInput("--open contradicts the section auth.", next="Leave one out.")
    if config.auth is None and not config.open and not is_loopback(config.host):
        raise InvalidInput(
            f"The server would answer everybody who reaches {config.host}, because it has no authentication.",
            next="Give it a file of keys (--keys), listen on 127.0.0.1, or let everybody in with --open.",
            host=config.host,
        )
    return config


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
