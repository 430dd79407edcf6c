"""REST over real sockets, with real NLM hosts behind it: who holds what, who waits and why, and a release [OPS-3]."""

import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.end_to_end.control import Rest, until
from tests.end_to_end.endpoints import endpoints, scrape, value
from tests.end_to_end.locking import ALICE, BLOCKED, BOB, CAROL, DEADLCK, GRANTED, LockWorld, lock_world
from tests.end_to_end.server_process import EMBEDDED, ONE_SHARE, ServerProcess

pytestmark = [pytest.mark.slow, pytest.mark.root]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LockWorld]:
    with lock_world(tmp_path_factory.mktemp("server")) as made:
        yield made


@pytest.fixture
def rest(world: LockWorld) -> Rest:
    return Rest(world.server)


def test_a_held_lock_is_shown_with_path_owner_and_range(world: LockWorld, rest: Rest) -> None:
    """[OPS-3], and the owner's id as [NLM-2] writes it."""
    host = world.host(b"alpha")
    file = world.file()
    assert world.nlm(host).lock(ALICE, file, exclusive=False) is GRANTED
    page = rest.get(f"/locks?client={quote(f'{host.address} alpha')}")
    (lock,) = page["locks"]
    assert page["total"] >= 1
    assert lock["path"].startswith("/export/file-")
    assert (lock["start"], lock["end"], lock["type"], lock["state"]) == (0, None, "shared", "held")
    assert (lock["owner"]["name"], lock["owner"]["address"], lock["owner"]["process"]) == ("alpha", host.address, 1)
    assert rest.get(f"/locks/{lock['id']}") == lock
    assert lock["owner"]["id"] == f"nlm:alpha:{ALICE.svid}:{ALICE.oh.hex()}"
    assert rest.get(f"/locks?path={quote(lock['path'])}")["locks"] == [lock]
    assert rest.get(f"/locks?state=pending&path={quote(lock['path'])}")["locks"] == []
    why = rest.get(f"/locks/{lock['id']}/why")["why"]
    assert f"process 1 of alpha at {host.address}" in why
    assert "the whole file" in why
    assert "nobody waits for it" in why


def test_a_waiter_says_why_and_a_forced_release_wakes_it(world: LockWorld, rest: Rest) -> None:
    """The operator's question: who holds this lock, and why am I waiting."""
    holder, waiter = world.host(b"holder"), world.host(b"waiter")
    file = world.file()
    assert world.nlm(holder).lock(ALICE, file) is GRANTED
    assert world.nlm(waiter).lock(BOB, file, block=True) is BLOCKED
    (waiting,) = rest.get(f"/waiters?client={quote(f'{waiter.address} waiter')}")["waiters"]
    assert waiting["state"] == "waiting"
    (blocker,) = waiting["blockers"]
    assert blocker["owner"]["name"] == "holder"
    assert f"process 2 of waiter at {waiter.address} has waited" in waiting["why"]
    assert f"process 1 of holder at {holder.address} has had an exclusive lock" in waiting["why"]
    assert rest.get(f"/waiters/{waiting['ticket']}/why")["why"].startswith("process 2 of waiter")
    edges = rest.get("/graph")["edges"]
    assert ("waiter", "holder") in {(edge["waiter"]["name"], edge["holder"]["name"]) for edge in edges}
    about = rest.get(f"/file?path={quote(waiting['path'])}")
    assert [lock["id"] for lock in about["locks"]] == [blocker["id"]]
    assert [one["ticket"] for one in about["waiters"]] == [waiting["ticket"]]

    released = rest.post(f"/locks/{blocker['id']}/release", reason="its host is gone for good")
    assert [lock["id"] for lock in released["released"]] == [blocker["id"]]
    assert "still believes that it holds the lock" in released["warning"]
    waiter.grants.wait(1)
    newest = rest.get("/audit")["entries"][0]
    assert (newest["action"], newest["reason"], newest["outcome"]) == (
        "release lock",
        "its host is gone for good",
        "done",
    )
    assert "token change from 127.0.0.1" in newest["actor"]
    assert rest.ask(f"/api/v1/locks/{blocker['id']}").status == 404
    assert value(scrape(world.server), "dittofs_locks_release_total", reason="operator") >= 1
    line = (world.server.data / "audit.jsonl").read_text().splitlines()[-1]
    assert "its host is gone for good" in line


def test_a_deadlock_is_named(world: LockWorld, rest: Rest) -> None:
    one, two = world.nlm(world.host(b"one")), world.nlm(world.host(b"two"))
    left, right = world.file(), world.file()
    assert one.lock(ALICE, left) is GRANTED
    assert two.lock(BOB, right) is GRANTED
    assert one.lock(ALICE, right, block=True) is BLOCKED
    assert two.lock(BOB, left, block=True) is DEADLCK
    newest = rest.get("/deadlocks")["deadlocks"][0]
    assert {link["owner"]["name"] for link in newest["cycle"]} == {"one", "two"}
    assert "held by process 1 of one" in newest["why"]
    assert value(scrape(world.server), "dittofs_locks_deadlock_detected_total") >= 1


def test_a_callback_that_fails_is_explained(world: LockWorld, rest: Rest) -> None:
    """`lock why` in the words of the network: port 111 of that address refuses connections."""
    holder, deaf = world.host(b"talker"), world.host(b"deaf", has_port_mapper=False)
    file = world.file()
    talking = world.nlm(holder)
    assert talking.lock(ALICE, file) is GRANTED
    assert world.nlm(deaf).lock(BOB, file, block=True) is BLOCKED
    talking.unlock(ALICE, file)

    def trouble() -> str | None:
        found: str | None = next(one["trouble"] for one in rest.get("/clients")["clients"] if one["name"] == "deaf")
        return found

    told = until(trouble)
    assert "callback not reachable" in told
    assert deaf.address in told


def test_a_client_that_will_not_come_back_is_forgotten_with_its_locks(world: LockWorld, rest: Rest) -> None:
    gone, waiter = world.host(b"gone"), world.host(b"patient")
    file = world.file()
    assert world.nlm(gone).lock(ALICE, file) is GRANTED
    assert world.nlm(waiter).lock(CAROL, file, block=True) is BLOCKED
    client = next(one for one in rest.get("/clients")["clients"] if one["name"] == "gone")
    assert (client["locks"], client["adapter"]) == (1, "nlm")
    released = rest.post(f"/forget/nlm/{quote(client['id'])}", reason="scrapped")
    assert len(released["released"]) == 1
    waiter.grants.wait(1)
    assert rest.ask(f"/api/v1/clients/nlm/{quote(client['id'])}").status == 404


def test_every_page_is_needed_to_see_all_locks(world: LockWorld, rest: Rest) -> None:
    nlm = world.nlm(world.host(b"many"))
    files = [world.file() for _ in range(7)]
    for number in range(25):
        file = files[number % 7]
        where = type(file)(handle=file.handle, offset=number * 10, length=5)
        assert nlm.lock(ALICE, where) is GRANTED
    seen: list[int] = []
    cursor = ""
    while True:
        page = rest.get(f"/locks?limit=4&owner={quote('nlm:many:1:' + b'alice'.hex())}&cursor={cursor}")
        assert len(page["locks"]) <= 4
        seen += [lock["id"] for lock in page["locks"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert len(seen) == len(set(seen)) == 25
    assert rest.ask("/api/v1/locks?cursor=999999.0.0.0").status == 410


@pytest.mark.parametrize(
    ("token", "path", "body", "status"),
    [
        (None, "/locks", None, 401),
        (None, "/live", None, 200),
        ("nonsense", "/live", None, 401),
        ("nonsense", "/status", None, 401),
        ("read", "/status", None, 200),
        ("read", "/locks/1/release", {"reason": "because"}, 403),
        ("change", "/locks/999999/release", {"reason": "because"}, 404),
        ("change", "/locks/999999/release", {}, 400),
        ("change", "/locks/999999/release", {"reason": "  "}, 400),
        ("change", "/locks?limit=0", None, 400),
        ("change", "/locks?colour=red", None, 400),
        ("change", "/nothing", None, 404),
        ("change", "/grace/end", {"share": "/export", "reason": "testing"}, 404),
    ],
)
def test_rights_and_refusals(world: LockWorld, token: str | None, path: str, body: object, status: int) -> None:
    """Reading and changing are separate rights; what cannot be used is refused with the reason."""
    answer = Rest(world.server, token).ask(f"/api/v1{path}", body)
    assert answer.status == status
    assert status == 200 or answer.value["error"]


def test_the_rest_of_the_resources(world: LockWorld, rest: Rest) -> None:
    status = rest.get("/status")
    assert status["epoch"] >= 1
    assert status["endpoints"].items() <= endpoints(world.server).items()
    assert [share["name"] for share in rest.get("/shares")["shares"]] == ["/export"]
    assert rest.get("/shares/export")["read_only"] is False
    assert rest.ask("/api/v1/shares/other").status == 404
    usage = rest.get("/usage/export")
    assert usage["is_complete"]
    assert usage["files"] >= 1
    assert {store["name"] for store in rest.get("/stores")["stores"]} == {"meta", "files"}
    assert rest.get("/health")["is_ready"]
    assert rest.get("/ready")["is_ready"]
    assert rest.get("/grace") == {"is_active": False, "shares": []}
    assert not any(rest.post("/reload").values()), "nothing has changed"


def test_the_page_keeps_a_session_that_other_sites_cannot_use(world: LockWorld) -> None:
    """SameSite=Strict, HttpOnly; a change by cookie must come from the page's own origin."""
    anonymous = Rest(world.server, None)
    own = endpoints(world.server)["api"]
    token = anonymous.tokens()["change"]
    assert anonymous.ask("/api/v1/session", {"token": "no"}, origin=own).status == 403
    assert anonymous.ask("/api/v1/session", {"token": token}, origin="http://evil.example").status == 403
    opened = anonymous.ask("/api/v1/session", {"token": token}, origin=own)
    cookie = opened.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    session = cookie.partition(";")[0]
    assert token not in cookie
    assert anonymous.ask("/api/v1/status", cookie=session).status == 200
    release = {"reason": "because"}
    assert anonymous.ask("/api/v1/locks/999999/release", release, cookie=session).status == 403
    assert (
        anonymous.ask("/api/v1/locks/999999/release", release, cookie=session, origin="http://evil.example").status
        == 403
    )
    assert anonymous.ask("/api/v1/locks/999999/release", release, cookie=session, origin=own).status == 404
    assert anonymous.ask("/api/v1/session", method="DELETE", cookie=session, origin=own).status == 204
    assert anonymous.ask("/api/v1/status", cookie=session).status == 401


def test_tokens_are_private_and_kept_and_never_shown(tmp_path: Path) -> None:
    """[OPS-5]."""
    with ServerProcess(tmp_path) as server:
        rest = Rest(server)
        tokens = rest.tokens()
        assert stat.S_IMODE((server.data / "api-tokens").stat().st_mode) == 0o600
        rest.get("/status")
        Rest(server, "wrong-" + tokens["change"]).ask("/api/v1/status")
        server.restart()
        assert rest.tokens() == tokens
        assert rest.get("/status")["started_after"] == "clean stop"
        log = server.log()
        assert not any(token in log for token in tokens.values())
        server.kill()
        server.start()
        assert rest.get("/status")["started_after"] == "crash"


def test_a_taken_port_of_the_control_plane_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        config = f'{EMBEDDED}{ONE_SHARE}[api]\nlisten = "127.0.0.1:{port}"\n'
        with ServerProcess(tmp_path, config=config) as server, server.connect() as client:
            client.getattr(client.root)
            assert f"api is not served: 127.0.0.1:{port}: Address already in use" in server.printed
