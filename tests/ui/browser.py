"""Debian's Chromium, driven by Playwright, with everything that a page must not do written down."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

AXE = Path(__file__).parent / "vendor" / "axe-4.14.0.js"
ARGUMENTS = ["--no-sandbox", "--disable-dev-shm-usage", "--enable-unsafe-swiftshader", "--mute-audio"]
HARMLESS = ("GL Driver Message", "GroupMarkerNotSet")
"""What Chromium says of drawing without a graphics card."""


def chromium() -> str | None:
    """Where the browser is. It is never downloaded."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def install() -> str | None:
    """Install the browser and a font from the system's packages, where this may be done; else say why not."""
    if chromium() is not None:
        return None
    if shutil.which("apt-get") is None:
        return "there is no Chromium, and no apt-get to install it; install Chromium and a font, and run again"
    for command in (
        ["apt-get", "update"],
        ["apt-get", "install", "-y", "--no-install-recommends", "chromium", "fonts-dejavu"],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            return f"there is no Chromium, and `{' '.join(command)}` failed: {last}"
    return None if chromium() is not None else "apt-get installed chromium, and it is not on the path"


@dataclass
class Tab:
    """A page of the browser, and what it must not have done."""

    page: Any
    url: str
    wrong: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def go(self, path: str) -> Any:
        """Open a page, until it is drawn."""
        self.page.goto(self.url + path)
        self.page.wait_for_selector("html[data-ready]")
        self.settle()
        return self.page

    def settle(self) -> None:
        """Until nothing is on its way."""
        self.page.wait_for_function(
            "() => !document.querySelector('main[aria-busy=true], .progress.on, .skeleton')", timeout=15_000
        )

    def violations(self) -> list[str]:
        """What axe finds against WCAG 2 A and AA."""
        if not self.page.evaluate("() => !!window.axe"):
            self.page.evaluate(AXE.read_text("utf-8"))
        found = self.page.evaluate(
            "async () => (await axe.run(document, {runOnly: ['wcag2a', 'wcag2aa'], resultTypes: ['violations']}))"
            ".violations"
        )
        return [f"{one['id']}: {node['target']} {node['failureSummary']}" for one in found for node in one["nodes"]]

    def wide(self) -> int:
        """By how many pixels the page is wider than the window."""
        found: int = self.page.evaluate(
            "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        return found


@contextmanager
def opened(browser: Any, url: str, **how: Any) -> Iterator[Tab]:
    """A fresh browser without cookies. At the end nothing may have failed, and no other host been asked."""
    context = browser.new_context(**{"viewport": {"width": 1360, "height": 860}, "reduced_motion": "reduce", **how})
    tab = Tab(context.new_page(), url)

    def logged(message: Any) -> None:
        expected = "Failed to load resource" in message.text  # a refused request is what some tests are about
        if message.type in ("error", "warning") and not expected and not any(h in message.text for h in HARMLESS):
            tab.wrong.append(f"console: {message.text}")

    tab.page.on("console", logged)
    tab.page.on("pageerror", lambda error: tab.wrong.append(f"error: {error}"))
    tab.page.on("request", lambda request: tab.asked.append(request.url))
    try:
        yield tab
        hosts = {urlsplit(asked).netloc for asked in tab.asked if not asked.startswith(("data:", "blob:"))}
        assert hosts <= {urlsplit(url).netloc}, hosts
        assert tab.wrong == [], tab.wrong
    finally:
        context.close()


if __name__ == "__main__":
    reason = install()
    raise SystemExit(f"tests of the pages cannot run: {reason}" if reason else 0)
