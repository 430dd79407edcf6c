"""The page in a real browser, with real NLM hosts behind it: the operator's flows, clicked through [OPS-3]."""

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.control.browser import Watched, browser
from tests.end_to_end.control import Rest, until
from tests.end_to_end.endpoints import endpoints
from tests.end_to_end.locking import ALICE, BLOCKED, BOB, CAROL, DEADLCK, GRANTED, LockWorld, lock_world
from tests.end_to_end.server_process import EMBEDDED, MEMORY, ONE_SHARE
from tests.hosts.host import Host

LOCKS = 10_000

pytestmark = [pytest.mark.slow, pytest.mark.root, pytest.mark.timeout(300)]


def enter(watched: Watched, world: LockWorld, token: str = "change") -> None:
    page = watched.page
    page.goto(endpoints(world.server)["api"])
    page.get_by_label("Token").fill(Rest(world.server).tokens()[token])
    page.get_by_role("button", name="Enter").click()
    page.get_by_role("heading", name="Overview").wait_for()


def contend(world: LockWorld) -> Host:
    """A file with a holder of parts of it and two who wait, and a deadlock that was broken; the first waiter."""
    holder, first, second = world.host(b"alpha"), world.host(b"beta"), world.host(b"gamma")
    file = world.file()
    part = type(file)
    held, waiting, behind = world.nlm(holder), world.nlm(first), world.nlm(second)
    assert held.lock(ALICE, part(handle=file.handle, offset=0, length=100)) is GRANTED
    assert held.lock(ALICE, part(handle=file.handle, offset=4096, length=0), exclusive=False) is GRANTED
    assert waiting.lock(BOB, part(handle=file.handle, offset=50, length=100), block=True) is BLOCKED
    assert behind.lock(CAROL, part(handle=file.handle, offset=0, length=0), block=True) is BLOCKED
    other = world.file()
    assert waiting.lock(BOB, other) is GRANTED
    assert held.lock(ALICE, other, block=True) is DEADLCK
    return first


def test_from_the_token_to_the_release(tmp_path: Path) -> None:
    """Log in, see why somebody waits, look at the file, release the lock with a reason: the waiter gets it."""
    with lock_world(tmp_path) as world, browser() as watched:
        waiter = contend(world)
        page = watched.page
        page.goto(endpoints(world.server)["api"])
        page.get_by_label("Token").fill("wrong")
        page.get_by_role("button", name="Enter").click()
        page.get_by_role("alert").get_by_text("not a token of this server").wait_for()
        assert watched.complaints, "the browser tells of the refusal"
        watched.complaints.clear()
        enter(watched, world)
        page.get_by_text("live", exact=True).wait_for()
        page.locator(".tile", has_text="requests waiting").get_by_text("2").wait_for()
        page.get_by_role("link", name="Locks", exact=True).click()
        page.locator("#waiters").get_by_text("process 2 of beta").wait_for()
        page.locator("#deadlocks").get_by_text("held by process").wait_for()
        assert page.locator("svg.graph .node").count() == 3
        for name in ("Clients", "Shares", "Audit", "Locks"):
            page.get_by_role("link", name=name, exact=True).click()
            page.get_by_role("heading", name=name, exact=True).wait_for()
        page.locator("#waiters a").first.click()
        page.get_by_role("heading", name="Why is this blocked?").wait_for()
        assert page.locator("svg.ranges .bar").count() == 4
        assert page.locator("svg.ranges .bar.wait").count() == 2
        row = page.locator("tbody tr", has_text=re.compile("0 . 99"))
        row.get_by_role("button", name="Release").click()
        page.get_by_text("still believes that it holds the lock").wait_for()
        page.get_by_label("Reason").fill("alpha has left the building")
        page.get_by_role("button", name="Release it").click()
        waiter.grants.wait(1)
        page.get_by_role("link", name="Audit", exact=True).click()
        page.get_by_text("alpha has left the building").wait_for()
        page.get_by_role("button", name="Log out").click()
        page.get_by_label("Token").wait_for()
        assert watched.complaints == []
        assert watched.hosts == {urlsplit(endpoints(world.server)["api"]).netloc}


def test_who_may_only_read_cannot_click_it_away(tmp_path: Path) -> None:
    with lock_world(tmp_path) as world, browser() as watched:
        contend(world)
        enter(watched, world, "read")
        watched.page.get_by_role("link", name="Locks", exact=True).click()
        button = watched.page.get_by_role("button", name="Release").first
        button.wait_for()
        assert button.is_disabled()


def test_grace_counts_down_and_can_be_ended(tmp_path: Path) -> None:
    with lock_world(tmp_path, EMBEDDED + ONE_SHARE) as world, browser() as watched:
        host = world.host(b"sleeper")
        assert world.nlm(host).lock(ALICE, world.file()) is GRANTED
        world.server.kill()
        world.server.start()
        enter(watched, world)
        page = watched.page
        page.get_by_text("/export is in grace for").wait_for()
        page.get_by_text("sleeper").wait_for()
        page.get_by_role("button", name="End grace now").click()
        page.get_by_label("Reason").fill("it will not come back")
        page.get_by_role("button", name="End grace", exact=True).click()
        page.locator("#grace").wait_for(state="hidden")
        assert not Rest(world.server).get("/grace")["is_active"]
        assert watched.complaints == []


def test_it_is_usable_with_ten_thousand_locks(tmp_path: Path) -> None:
    """Lists come a page at a time, the drawing stays bounded, and nothing takes longer than a person waits."""
    config = MEMORY + ONE_SHARE + "[locks]\nmax_per_file = 20000\nmax_per_client = 20000\n"
    with lock_world(tmp_path, config) as world, browser() as watched:
        holder, waiter = world.nlm(world.host(b"alpha")), world.nlm(world.host(b"beta"))
        file = world.file()
        for number in range(LOCKS):
            assert holder.lock(ALICE, type(file)(handle=file.handle, offset=10 * number, length=5)) is GRANTED
        assert waiter.lock(BOB, type(file)(handle=file.handle, offset=0, length=0), block=True) is BLOCKED
        enter(watched, world)
        page = watched.page
        page.set_default_timeout(5000)
        page.get_by_role("link", name="Locks", exact=True).click()
        page.get_by_text("Held (10,000 in all)").wait_for()
        rows = page.locator("section", has_text="Held (10,000 in all)").locator("tbody tr")
        shown = rows.count()
        assert 0 < shown < 1000
        page.get_by_role("button", name="Show more").click()
        until(lambda: rows.count() > shown)
        page.locator("#waiters a").first.click()
        page.get_by_role("heading", name="Why is this blocked?").wait_for()
        assert 0 < page.locator("svg.ranges .bar").count() < 2000
        watched.shoot(tmp_path / "many.png", scheme="light", width=1280)
        assert watched.overflow() <= 0
        assert watched.complaints == []


def test_it_fits_every_screen(tmp_path: Path) -> None:
    """Nothing is wider than the screen, light and dark; the pictures are for people to look at."""
    with lock_world(tmp_path) as world, browser() as watched:
        contend(world)
        enter(watched, world)
        page = watched.page
        for name in ("Overview", "Clients", "Shares", "Audit", "Locks", "File"):
            if name == "File":
                page.locator("#waiters a").first.click()
                page.get_by_role("heading", name="Why is this blocked?").wait_for()
            else:
                page.get_by_role("link", name=name, exact=True).click()
                page.get_by_role("heading", name=name, exact=True).wait_for()
            for width in (1280, 390):
                for scheme in ("light", "dark"):
                    picture = watched.shoot(tmp_path / f"{name}-{width}-{scheme}.png", scheme=scheme, width=width)
                    assert picture.stat().st_size > 5000
                    assert watched.overflow() <= 0, f"{name} at {width}"
        assert watched.complaints == []
