"""What the server did so far, as Prometheus text: requests by route, never by anything that a client wrote."""

from __future__ import annotations

import bisect
import threading
from collections import Counter

import quire

SECONDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0)


class Metrics:
    """Counts of one server."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._seconds: dict[str, list[int]] = {}
        self._sums: dict[str, float] = {}
        self._errors: Counter[str] = Counter()
        self._sent = 0

    def count(self, method: str, route: str, status: int, seconds: float, sent: int, kind: str | None) -> None:
        """One request that was answered."""
        with self._lock:
            self._requests[method, route, status] += 1
            buckets = self._seconds.setdefault(route, [0] * (len(SECONDS) + 1))
            buckets[bisect.bisect_left(SECONDS, seconds)] += 1
            self._sums[route] = self._sums.get(route, 0.0) + seconds
            self._sent += sent
            if kind is not None:
                self._errors[kind] += 1

    def text(self, gauges: dict[str, int]) -> str:
        """Everything, with what the library counts in this process."""
        with self._lock:
            lines = ["# HELP quire_http_requests_total Requests by route.", "# TYPE quire_http_requests_total counter"]
            for (method, route, status), count in sorted(self._requests.items()):
                labels = f'method="{method}",route="{route}",status="{status}"'
                lines.append(f"quire_http_requests_total{{{labels}}} {count}")
            lines += ["# HELP quire_http_errors_total Problems by kind.", "# TYPE quire_http_errors_total counter"]
            lines += [f'quire_http_errors_total{{kind="{k}"}} {n}' for k, n in sorted(self._errors.items())]
            lines += [
                "# HELP quire_http_sent_bytes_total Bytes of bodies.",
                "# TYPE quire_http_sent_bytes_total counter",
            ]
            lines.append(f"quire_http_sent_bytes_total {self._sent}")
            lines += ["# HELP quire_http_seconds Time to answer.", "# TYPE quire_http_seconds histogram"]
            for route, buckets in sorted(self._seconds.items()):
                below = 0
                for bound, count in zip((*map(str, SECONDS), "+Inf"), buckets, strict=True):
                    below += count
                    lines.append(f'quire_http_seconds_bucket{{route="{route}",le="{bound}"}} {below}')
                lines.append(f'quire_http_seconds_sum{{route="{route}"}} {self._sums[route]:.6f}')
                lines.append(f'quire_http_seconds_count{{route="{route}"}} {below}')
        for name, value in gauges.items():
            lines += [f"# TYPE quire_http_{name} gauge", f"quire_http_{name} {value}"]
        return "\n".join(lines) + "\n" + quire.metrics()
