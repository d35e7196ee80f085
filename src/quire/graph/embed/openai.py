"""An embedder behind HTTP: OpenAI's, and the many services that answer as it does.

It asks for several texts at a time, several times at once, waits and asks again when the service is busy, and never
shows the key. A redirect is not followed: the key would go with it.
"""

from __future__ import annotations

import os
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import msgspec

from quire.errors import EmbedderError, InvalidInput
from quire.ledger.records import readable
from quire.prompt import Escaped
from quire.store import clock

OPENAI = "https://api.openai.com/v1"
BUSY = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
"""Answers after which the same question may be asked again."""
LONGEST_WAIT = 60.0
"""Seconds; a service that asks for more patience is not waited for."""
CHARACTERS = 400_000
"""So much text goes into one request, so that no service finds it too long as a whole."""
LARGEST = 1 << 30
"""No answer is longer."""


class _Item(msgspec.Struct):
    index: int
    embedding: list[float]


class _Answer(msgspec.Struct):
    data: list[_Item]


readable(_Answer)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


class OpenAIEmbedder(Escaped):
    """Vectors from a service that speaks OpenAI's `POST /embeddings`.

    `api_key` is taken from `OPENAI_API_KEY` when it is not given; a service that needs none is asked without one.
    `dimensions` asks a model that can do so for shorter vectors. `timeout` is for one answer as a whole, in seconds. A
    busy service is asked `retries` times more, later each time, or when it says. `per_minute` requests are sent at
    most, evenly; a task of another process counts its own. What cannot be had is `EmbedderError`.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str = OPENAI,
        api_key: str | None = None,
        dimensions: int | None = None,
        batch: int = 256,
        parallel: int = 4,
        retries: int = 5,
        timeout: float = 60.0,
        per_minute: int | None = None,
    ) -> None:
        address = urlsplit(base_url)
        if address.scheme not in ("http", "https") or not address.hostname:
            raise InvalidInput(f"{base_url!r} is not the address of a service.", next=f"Write it like {OPENAI}.")
        if address.username or address.password or address.query:
            raise InvalidInput(
                "The address of an embedder must not contain secrets.", next="Give the key with api_key=."
            )
        for name, value, least in (("batch", batch, 1), ("parallel", parallel, 1), ("retries", retries, 0)):
            if value < least:
                raise InvalidInput(f"{name} is at least {least}, not {value}.", next="Correct it.")
        if per_minute is not None and per_minute < 1:
            raise InvalidInput(f"per_minute is at least 1, not {per_minute}.", next="Correct it, or leave it out.")
        if timeout <= 0:
            raise InvalidInput(f"timeout must be a number of seconds, not {timeout}.", next="Correct it.")
        self.model = model
        self.base_url = base_url.rstrip("/")
        self.dimensions = dimensions
        self._key = api_key if api_key is not None else os.environ.get("OPENAI_API_KEY") or None
        if self._key is not None and (not self._key.isascii() or not self._key.isprintable()):
            raise InvalidInput("The API key is not plain text.", next="Check where it comes from.")
        self._batch, self._parallel, self._retries, self._timeout = batch, parallel, retries, timeout
        self._per_minute, self._pace, self._next = per_minute, threading.Lock(), 0.0
        self._opener = urllib.request.build_opener(_NoRedirect)

    @property
    def dimension(self) -> int | None:
        """The length of its vectors."""
        return self.dimensions

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """A vector for each text, in as many requests as they need."""
        batches = list(self._batches(texts))
        if len(batches) <= 1:
            return [vector for batch in batches for vector in self._vectors(batch)]
        with ThreadPoolExecutor(min(self._parallel, len(batches)), "quire-embed") as threads:
            futures = [threads.submit(self._vectors, batch) for batch in batches]
            try:
                return [vector for future in futures for vector in future.result()]
            except BaseException:
                for future in futures:
                    future.cancel()  # what was not asked for yet is not
                raise

    def _batches(self, texts: Sequence[str]) -> Iterator[list[str]]:
        batch: list[str] = []
        characters = 0
        for text in texts:
            if batch and (len(batch) >= self._batch or characters + len(text) > CHARACTERS):
                yield batch
                batch, characters = [], 0
            batch.append(text or " ")  # an empty text is refused by services
            characters += len(text)
        if batch:
            yield batch

    def _vectors(self, texts: list[str]) -> list[list[float]]:
        asked: dict[str, Any] = {"model": self.model, "input": texts, "encoding_format": "float"}
        if self.dimensions is not None:
            asked["dimensions"] = self.dimensions
        answer = self._ask(msgspec.json.encode(asked))
        try:
            items = sorted(msgspec.json.decode(answer, type=_Answer).data, key=lambda item: item.index)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise self._wrong(f"did not answer with vectors: {error}") from None
        if [item.index for item in items] != list(range(len(texts))):
            raise self._wrong(f"gave {len(items)} vectors for {len(texts)} texts")
        wanted = self.dimensions or len(items[0].embedding)
        for item in items:
            if len(item.embedding) != wanted:
                raise self._wrong(f"gave a vector of {len(item.embedding)} dimensions, not of {wanted}")
        return [item.embedding for item in items]

    # -- asking -----------------------------------------------------------------------------------------------

    def _ask(self, body: bytes) -> bytes:
        """The answer to a question, asked again as long as that may help."""
        for attempt in range(self._retries + 1):
            try:
                return self._once(body)
            except EmbedderError as error:
                wait = error.fields.get("wait")
                patience = min(0.5 * 2**attempt, LONGEST_WAIT) * clock.uniform(0.5, 1.0) if wait is None else wait
                if not error.retryable or attempt == self._retries or patience > LONGEST_WAIT:
                    raise
            clock.sleep(patience)
        raise AssertionError  # pragma: no cover - the last attempt returns or raises

    def _wait_for_turn(self) -> None:
        """Requests of all threads begin one after the other, no faster than `per_minute`."""
        if self._per_minute is None:
            return
        with self._pace:
            now = clock.monotonic()
            turn = max(now, self._next)
            self._next = turn + 60.0 / self._per_minute
        if turn > now:
            clock.sleep(turn - now)

    def _once(self, body: bytes) -> bytes:
        self._wait_for_turn()
        headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "quire"}
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key}"
        request = urllib.request.Request(f"{self.base_url}/embeddings", body, headers, method="POST")
        until = clock.monotonic() + self._timeout
        try:
            with self._opener.open(request, timeout=self._timeout) as answer:
                return self._whole(answer, until)
        except urllib.error.HTTPError as error:
            raise self._refused(error) from None
        except EmbedderError:
            raise
        except TimeoutError:
            raise self._late() from None
        except (urllib.error.URLError, OSError, EOFError, ValueError) as error:
            reason = getattr(error, "reason", error)
            if isinstance(reason, TimeoutError):
                raise self._late() from None
            raise self._wrong(f"cannot be reached: {reason}", retryable=True) from None
        except Exception as error:  # http.client's own, of a connection that broke or of an answer that is none
            raise self._wrong(f"ended its answer early: {type(error).__name__}", retryable=True) from None

    def _whole(self, answer: Any, until: float) -> bytes:
        """All of an answer: one that comes in drops is late as a whole."""
        parts, size = [], 0
        while part := answer.read1(1 << 20):
            parts.append(part)
            size += len(part)
            if clock.monotonic() > until:
                raise TimeoutError
            if size > LARGEST:
                raise self._wrong("sends an answer that does not end")
        told = answer.headers.get("Content-Length")
        if told is not None and told.isdecimal() and int(told) != size:
            raise self._wrong("ended its answer early", retryable=True)
        return b"".join(parts)

    # -- errors -----------------------------------------------------------------------------------------------

    def _refused(self, error: urllib.error.HTTPError) -> EmbedderError:
        status = error.code
        try:
            said = self._clean(_reason(error.read(1 << 16)))
        except Exception:  # the reason is a courtesy
            said = ""
        wait = _seconds(error.headers.get("Retry-After")) if error.headers is not None else None
        nexts = {
            401: "Check the API key (OPENAI_API_KEY, or api_key=).",
            403: "Check what the API key may do.",
            404: "Check base_url and the name of the model.",
            413: "Give a smaller batch=.",
        }
        advice = nexts.get(status, "Try again later." if status in BUSY else "Check the model and the texts.")
        return self._wrong(
            f"refused with status {status}{f': {said}' if said else ''}",
            next=advice,
            retryable=status in BUSY,
            status=status,
            **({} if wait is None else {"wait": wait}),
        )

    def _late(self) -> EmbedderError:
        return self._wrong(
            f"did not answer within {self._timeout:g} s",
            next="Try again later, or give a longer timeout= or a smaller batch=.",
            retryable=True,
        )

    def _wrong(
        self, said: str, *, next: str = "Check base_url and the model.", retryable: bool = False, **fields: Any
    ) -> EmbedderError:
        text = self._clean(said).rstrip(".")
        return EmbedderError(
            f"The embedder at {self.base_url} {text}.",
            next=next,
            retryable=retryable,
            model=self.model,
            base_url=self.base_url,
            **fields,
        )

    def _clean(self, text: str) -> str:
        """Text of others, fit to be shown: short, on one line, without the key."""
        if self._key:
            text = text.replace(self._key, "…")
        line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
        return line if len(line) <= 300 else f"{line[:297]}…"

    def __repr__(self) -> str:
        more = f", dimensions={self.dimensions}" if self.dimensions is not None else ""
        return f"OpenAIEmbedder({self.model!r}, base_url={self.base_url!r}{more})"

    def sent(self) -> SentEmbedder:
        """The same for a task in another process. It carries the key, as tasks carry credentials of stores."""
        how: dict[str, Any] = {"base_url": self.base_url, "api_key": self._key, "dimensions": self.dimensions}
        how |= {"batch": self._batch, "parallel": self._parallel, "retries": self._retries, "timeout": self._timeout}
        how["per_minute"] = self._per_minute
        return SentEmbedder(self.model, self.dimensions, how)

    def __reduce__(self) -> Any:
        raise InvalidInput("An embedder with a key cannot be pickled.", next="Make it where it is used.")


@dataclass(frozen=True)
class SentEmbedder:
    """An embedder on its way to another process, which makes it there. It shows its key to nobody."""

    model: str
    dimension: int | None
    _how: dict[str, Any] = field(repr=False)

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """A vector for each text."""
        return OpenAIEmbedder(self.model, **self._how).embed(texts)


def _reason(body: bytes) -> str:
    """What a refusal says: `{"error": {"message": …}}`, or its text."""
    try:
        found: Any = msgspec.json.decode(body)
        for name in ("error", "message"):
            if isinstance(found, dict) and name in found:
                found = found[name]
        if isinstance(found, str):
            return found
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    return body.decode(errors="replace")


def _seconds(text: str | None) -> float | None:
    """A `Retry-After` of seconds; a date is not worth the trouble."""
    return float(text) if text is not None and text.strip().isdecimal() else None
