"""Ctrl-C, however it arrives: as KeyboardInterrupt, or as what DuckDB makes of it when it is at work."""

from __future__ import annotations

from collections.abc import Iterator

NOTHING = "interrupted; nothing was committed"
UNSURE = "interrupted; nothing was committed, unless `quire log` shows it"


def is_interrupt(error: BaseException) -> bool:
    """Whether the user stopped it. What DuckDB says may have been wrapped on its way."""
    return any(_stopped(one) for one in _chain(error))


def _stopped(error: BaseException) -> bool:
    if isinstance(error, KeyboardInterrupt):
        return True
    # DuckDB takes the signal while a query runs and raises its own. It is told by name: it need not be loaded for this.
    if type(error).__module__.split(".")[0] in ("duckdb", "_duckdb"):
        return type(error).__name__ == "InterruptException"
    return isinstance(error, RuntimeError) and str(error) == "Query interrupted"


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error and what it came of."""
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        yield found
        found = found.__cause__ or found.__context__
