"""The document of a page: what it shows as a block of data, and the addresses of modules and styles. Nothing inline.

All addresses are relative, so pages work behind whatever path a proxy puts before them.
"""

from __future__ import annotations

import secrets
from html import escape
from typing import Any

from quire.rowfiles.write import to_json
from quire.server.calls import Answer
from quire.server.ui.assets import digest

DOCUMENT = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="icon" href="{static}/mark.svg" type="image/svg+xml">
<link rel="stylesheet" href="{static}/tokens.css">
<link rel="stylesheet" href="{static}/ui.css">
<link rel="modulepreload" href="{static}/vendor/preact-11.2.0.js">
<script src="{static}/theme.js"></script>
<script type="application/json" id="data">{data}</script>
<script type="module" src="{static}/app.js"></script>
</head>
<body>
<div id="app"><div class="boot" aria-hidden="true"></div></div>
<noscript><p class="noscript">These pages need JavaScript.
What this one shows is at <a href="{twin}">{twin}</a>.</p></noscript>
</body>
</html>
"""


def document(address: str, state: dict[str, Any], *, title: str, status: int = 200) -> Answer:
    """A page of `address` that shows `state`."""
    nonce = secrets.token_urlsafe(16)
    data = to_json({**state, "nonce": nonce}).decode().replace("<", "\\u003c").replace("\u2028", "\\u2028")
    up = "../" * max(0, address.count("/") - 2) if address.count("/") >= 2 else "ui/"
    page = address.rpartition("/")[2]
    body = DOCUMENT.format(
        title=escape(f"{title} · Quire"),
        static=f"{up}static/{digest()}",
        data=data,
        twin=escape(f"{page}.json" if page else "home.json"),
    )
    headers = {
        "content-security-policy": (
            f"default-src 'self'; style-src 'self' 'nonce-{nonce}'; img-src 'self' data:; object-src 'none'; "
            "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
        ),
        "referrer-policy": "same-origin",
        "cross-origin-opener-policy": "same-origin",
        "cache-control": "no-store",
    }
    return Answer(body=body.encode(), media_type="text/html; charset=utf-8", headers=headers, status=status)


def problem(address: str, said: dict[str, Any], status: int, context: dict[str, Any]) -> Answer:
    """A page that says what went wrong, and what to do, within what surrounds all pages of a lake."""
    state = {"page": "problem", "problem": said, "context": context}
    return document(address, state, title=said["title"], status=status)
