"""Objects in S3, Google Cloud Storage, Azure Blob Storage or this process's memory, through obstore.

obstore's own retries are off: a retried create meets itself, and a hidden retry could not be counted.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from obstore import exceptions
from obstore.store import AzureStore, GCSStore, MemoryStore, S3Store

from quire.errors import ForkedProcess, InvalidInput, InvalidUri
from quire.store.address import Address, shown
from quire.store.backend import LARGEST, Entry, Failure, Reason

T = TypeVar("T")

_PAGE = 1000
_REASONS: tuple[tuple[type[Exception], Reason], ...] = (
    (FileNotFoundError, Reason.ABSENT),
    (exceptions.AlreadyExistsError, Reason.EXISTS),
    (exceptions.PreconditionError, Reason.EXISTS),
    (exceptions.PermissionDeniedError, Reason.DENIED),
    (exceptions.UnauthenticatedError, Reason.DENIED),
    (exceptions.NotSupportedError, Reason.REFUSED),
    (exceptions.InvalidPathError, Reason.REFUSED),
    (NotImplementedError, Reason.REFUSED),
)

_CLIENT_KEYS = {
    "allow_http",
    "allow_invalid_certificates",
    "connect_timeout",
    "default_content_type",
    "http1_only",
    "http2_keep_alive_interval",
    "http2_keep_alive_timeout",
    "http2_keep_alive_while_idle",
    "http2_only",
    "pool_idle_timeout",
    "pool_max_idle_per_host",
    "proxy_url",
    "proxy_ca_certificate",
    "proxy_excludes",
    "randomize_addresses",
    "read_timeout",
    "timeout",
    "user_agent",
}
# Lance's own settings in the options that both share.
_LANCE_KEYS = {"client_max_retries", "client_retry_timeout", "download_retry_count"}
_ENDPOINTS = ("endpoint", "endpoint_url", "aws_endpoint", "aws_endpoint_url", "aws_endpoint_url_s3")
_REGIONS = ("region", "aws_region", "default_region", "aws_default_region")
_OPEN_KEYS = frozenset((*_ENDPOINTS, *_REGIONS))
_SECRET_VARIABLE = re.compile(r"(AWS|AZURE|GOOGLE)_.*(KEY|SECRET|TOKEN|SAS)")

# Who has no credentials asks the machine's own metadata service for them. Off the cloud nobody answers there.
_METADATA = ("169.254.169.254", "169.254.170.2", "/latest/api/token", "metadata.google", "computeMetadata")
_CREDENTIALS = {
    "s3": "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or pass storage options of these names.",
    "gs": "Set GOOGLE_APPLICATION_CREDENTIALS, or pass the storage option google_service_account.",
    "az": "Set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY, or pass storage options of these names.",
}

_memories: dict[str, MemoryStore] = {}
_memories_lock = threading.Lock()
_used = False
_forked = False


class RemoteObjects:
    """A `Backend` on an obstore store."""

    def __init__(self, address: Address, options: Mapping[str, str]) -> None:
        self._secrets = _secrets(options)
        self._uri, self._scheme = address.uri, address.scheme
        self.attempts = 1 if address.scheme == "memory" else 6
        self.in_order = _lists_in_order(address, options)
        self._store: Any = self._connect(address, {key.lower(): value for key, value in options.items()})

    def get(self, key: str) -> bytes:
        found = self._call(lambda: self._store.get(key))
        if found.meta["size"] > LARGEST:
            raise Failure(Reason.LARGE, f"the object is larger than {LARGEST} bytes")
        return self._call(lambda: bytes(found.bytes()))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._call(lambda: bytes(self._store.get_range(key, start=start, length=length)))

    def head(self, key: str) -> Entry:
        return _entry(self._call(lambda: self._store.head(key)))

    def put(self, key: str, data: bytes) -> None:
        self._call(lambda: self._store.put(key, data, use_multipart=False))

    def create(self, key: str, data: bytes) -> None:
        self._call(lambda: self._store.put(key, data, mode="create", use_multipart=False))

    def delete(self, key: str) -> None:
        try:
            self._call(lambda: self._store.delete(key))
        except Failure as failure:
            if failure.reason is not Reason.ABSENT:
                raise

    def pages(self, prefix: str, after: str | None) -> Iterator[Sequence[Entry]]:
        stream = self._call(lambda: self._store.list(prefix or None, offset=after, chunk_size=_PAGE))
        yield from iter(lambda: [_entry(meta) for meta in self._call(lambda: next(stream, ()))], [])

    def sync(self, paths: Sequence[str]) -> None:
        """Nothing to do: what these stores acknowledge is durable."""

    def _call(self, call: Callable[[], T]) -> T:
        global _used
        if _forked:
            raise ForkedProcess(
                f"{self._uri} cannot be used in a forked process.",
                next="Start processes with the 'spawn' method of multiprocessing.",
                uri=self._uri,
            )
        _used = True
        try:
            return call()
        except Exception as error:
            failure = self._failure(error)
        # Outside the handler, so that the raw error and what it may hold is not attached.
        raise failure

    def _failure(self, error: Exception) -> Failure:
        if any(sign in str(error) for sign in _METADATA):
            return Failure(Reason.DENIED, "no credentials were found", _CREDENTIALS[self._scheme])
        reason = next((reason for kind, reason in _REASONS if isinstance(error, kind)), Reason.FAILED)
        return Failure(reason, f"{type(error).__name__}: {sanitised(str(error), self._secrets)}")

    def _connect(self, address: Address, options: dict[str, str]) -> Any:
        if address.scheme == "memory":
            return _memory(address)
        client = {key: options.pop(key) for key in _CLIENT_KEYS & options.keys()}
        config: dict[str, Any] = {key: value for key, value in options.items() if key not in _LANCE_KEYS}
        if address.scheme == "s3":
            _complete_s3(config, client, address)
        build: Any = {"s3": S3Store, "gs": GCSStore, "az": AzureStore}[address.scheme]
        try:
            return build(
                address.container,
                prefix=address.path or None,
                config=config,
                client_options=client or None,
                retry_config={"max_retries": 0},
            )
        except exceptions.UnknownConfigurationKeyError as error:
            problem = sanitised(str(error), self._secrets)
        except Exception as error:
            problem = f"{type(error).__name__}: {sanitised(str(error), self._secrets)}"
        raise InvalidInput(
            f"{self._uri} cannot be used with these storage options. {problem}",
            next="Correct the options or the environment variables they come from.",
            uri=self._uri,
        )


def _memory(address: Address) -> Any:
    if address.path:
        raise InvalidUri(f"{address.uri!r} has a path.", next=f"Write memory://{address.container}.", uri=address.uri)
    with _memories_lock:
        return _memories.setdefault(address.container, MemoryStore())


def _complete_s3(config: dict[str, Any], client: Mapping[str, str], address: Address) -> None:
    # Not every S3-compatible store has the bulk call, and one key is one request either way.
    config.setdefault("disable_bulk_delete", "true")
    endpoint = _first(config, _ENDPOINTS)
    if endpoint is None:
        return
    if _first(config, _REGIONS) is None:
        config["region"] = "us-east-1"
    allowed = client.get("allow_http") or config.get("aws_allow_http") or os.environ.get("AWS_ALLOW_HTTP", "")
    if endpoint.lower().startswith("http://") and allowed.lower() not in ("true", "1", "yes", "on", "y"):
        raise InvalidInput(
            f"{address.uri} has the endpoint {shown(endpoint)}, which is not encrypted.",
            next="Pass the storage option allow_http='true' if you want this.",
            uri=address.uri,
        )


def _lists_in_order(address: Address, options: Mapping[str, str]) -> bool:
    """Whether listings come in the order of the keys.

    Not from Azure's hierarchical namespaces, from S3 directory buckets, and from some S3-compatible servers, which list
    a tree: `a/b` before `a-b`. A server of which we know only the address is not trusted with it.
    """
    if address.scheme == "s3":
        lowered = {key.lower(): value for key, value in options.items()}
        return _first(lowered, _ENDPOINTS) is None and not address.container.endswith("--x-s3")
    return address.scheme != "az"


def _first(config: Mapping[str, str], keys: Sequence[str]) -> str | None:
    """The first of these settings in the options or, in its environment form, in the environment."""
    given = (config.get(key) for key in keys)
    inherited = (os.environ.get(key.upper()) for key in keys if key.startswith("aws_"))
    return next((value for value in (*given, *inherited) if value), None)


def _secrets(options: Mapping[str, str]) -> list[str]:
    """Every value that must not be printed; short ones are words like `true`."""
    given = [value for key, value in options.items() if key.lower() not in _OPEN_KEYS]
    inherited = [value for key, value in os.environ.items() if _SECRET_VARIABLE.match(key)]
    return sorted((value for value in (*given, *inherited) if len(value) > 4), key=len, reverse=True)


def sanitised(text: str, secrets: Sequence[str] = ()) -> str:
    """The first line of an error of obstore without anything that could be, or could be used as, a credential.

    Servers echo access keys and signatures in the XML they answer with, so everything from the first tag on goes.
    """
    line = text.strip().partition("\n")[0].partition("<")[0]
    line = re.sub(r"//[^/@\s]*@", "//***@", line)
    line = re.sub(r"\?\S*", "", line)
    for secret in secrets:
        line = line.replace(secret, "***")
    return line[:300].strip().rstrip(":")


def _entry(meta: Any) -> Entry:
    return Entry(meta["path"], meta["size"], meta["last_modified"])


def _mark_forked() -> None:
    # obstore's threads do not survive a fork: a call in the child would wait for ever.
    global _forked
    _forked = _forked or _used


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_mark_forked)
