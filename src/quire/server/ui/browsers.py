"""What a page of another site may not do through somebody's browser. Clients that are no browsers do not notice.

Browsers say where a request comes from (`Sec-Fetch-Site`) and which name they looked up (`Host`). A page of another
site may link to a page here, and nothing else; and a server for this machine alone answers to names of this machine
alone, so that no foreign name can be pointed at it.
"""

from __future__ import annotations

from collections.abc import Mapping

from quire.errors import Denied

FOREIGN = ("cross-site", "same-site")
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


def check(method: str, headers: Mapping[str, str], *, private: bool) -> None:
    """Refuse what another site sends, and on a private server what came by a foreign name."""
    if headers.get("sec-fetch-site", "") in FOREIGN:
        links = method in ("GET", "HEAD") and headers.get("sec-fetch-mode", "") == "navigate"
        if not links or headers.get("sec-fetch-dest", "document") != "document":
            raise Denied("A page of another site may not ask this server.", next="Open the server's own pages.")
    if private:
        host = headers.get("host", "").lower()
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        if name not in LOOPBACK:
            raise Denied(
                "This server answers on this machine only, and was called by another name.",
                next="Open the address that `quire ui` printed.",
            )


def check_written(method: str, headers: Mapping[str, str]) -> None:
    """Refuse a write that goes by a cookie alone unless the browser says that a page of this server sent it."""
    if method not in ("GET", "HEAD") and headers.get("sec-fetch-site", "") != "same-origin":
        raise Denied("A write by a cookie must come from a page of this server.", next="Use its own pages, or a token.")
