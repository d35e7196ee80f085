"""The signature of a request to a service of AWS, or to one that speaks like it (Signature Version 4)."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import urlsplit

from quire.store import clock

FORM = "application/x-www-form-urlencoded; charset=utf-8"


@dataclass(frozen=True)
class Keys:
    """Who signs."""

    access: str
    secret: str = field(repr=False)
    token: str | None = field(default=None, repr=False)


def signed(
    keys: Keys, url: str, body: bytes, *, service: str, region: str, now: datetime | None = None
) -> dict[str, str]:
    """The headers of a POST of a form to the root of a service."""
    stamp = (now or clock.now()).strftime("%Y%m%dT%H%M%SZ")
    scope = f"{stamp[:8]}/{region}/{service}/aws4_request"
    headers = {"content-type": FORM, "host": urlsplit(url).netloc, "x-amz-date": stamp}
    if keys.token is not None:
        headers["x-amz-security-token"] = keys.token
    names = ";".join(sorted(headers))
    lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    path = urlsplit(url).path or "/"
    request = f"POST\n{path}\n\n{lines}\n{names}\n{hashlib.sha256(body).hexdigest()}"
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = f"AWS4{keys.secret}".encode()
    for word in scope.split("/"):
        key = hmac.digest(key, word.encode(), "sha256")
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    by = f"AWS4-HMAC-SHA256 Credential={keys.access}/{scope}, SignedHeaders={names}, Signature={signature}"
    return {**headers, "authorization": by}
