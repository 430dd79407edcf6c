"""Debian's Chromium for tests of the page: everything it complains about and every host it asks is kept."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, sync_playwright

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WAIT_MILLISECONDS = 30_000


@dataclass(slots=True)
class Watched:
    page: Page
    complaints: list[str] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)

    def shoot(self, path: Path, *, scheme: str, width: int) -> Path:
        """A picture of the whole page as somebody with that screen and taste sees it."""
        self.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        self.page.set_viewport_size({"width": width, "height": 900})
        self.page.screenshot(path=path, full_page=True)
        return path

    def overflow(self) -> int:
        """By how many pixels the page is wider than the screen."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


@contextmanager
def browser() -> Iterator[Watched]:
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("no chromium here (tests/install-packages installs it)")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        page = started.new_page()
        page.set_default_timeout(WAIT_MILLISECONDS)
        watched = Watched(page)
        page.on(
            "console", lambda said: watched.complaints.append(said.text) if said.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda error: watched.complaints.append(str(error)))
        page.on("request", lambda request: watched.hosts.add(urlsplit(request.url).netloc))
        try:
            yield watched
        finally:
            started.close()
