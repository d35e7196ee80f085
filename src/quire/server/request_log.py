"""One line of JSON for every request: who, what, how it ended. No address, no name of data, no text of an error."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec


class RequestLog:
    """Writes lines to stderr, or to whatever it is given."""

    def __init__(self, write: Callable[[str], Any] | None = None) -> None:
        self._write = write or sys.stderr.write
        self._lock = threading.Lock()

    def __call__(self, event: str, **fields: Any) -> None:
        """Write one event. What is None is left out."""
        line: dict[str, Any] = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event}
        line.update((k, v) for k, v in fields.items() if v is not None)
        with self._lock:
            self._write(msgspec.json.encode(line, enc_hook=str).decode() + "\n")
