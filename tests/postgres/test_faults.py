"""A database that is restarted, cut off, slow, full, or not there: nothing is lost, nothing is applied twice, and the
service resumes by itself; issue 6."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest

from dittofs.client.nfs3 import Nfs3Error, attributes
from dittofs.protocols.nfs3 import types as t
from tests.end_to_end.server_process import MountedClient, ServerProcess
from tests.postgres.instance import OWNER, PostgresInstance, why_not
from tests.postgres.proxy import Proxy
from tests.postgres.servers import at_once, server_on, status_of

pytestmark = pytest.mark.slow

T = TypeVar("T")

JUKEBOX = t.nfsstat3.NFS3ERR_JUKEBOX
SECONDS = 60.0


@pytest.fixture(scope="module")
def own() -> Iterator[PostgresInstance]:
    """One that can be stopped without anybody else noticing."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    with PostgresInstance() as instance:
        yield instance


def guarded() -> t.createhow3:
    return t.createhow3(t.createmode3.GUARDED, attributes(mode=0o644))


def patiently(call: Callable[[], T]) -> T:
    """As a client does: come again when told to."""
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            return call()
        except Nfs3Error as refused:
            if refused.status is not JUKEBOX or time.monotonic() > deadline:
                raise


def names_in(client: MountedClient) -> set[bytes]:
    return {bytes(entry.name) for entry in client.list_directory(client.root)} - {b".", b".."}


class TestWhileServing:
    @pytest.mark.parametrize("mode", ["fast", "immediate"])
    def test_restart(self, own: PostgresInstance, tmp_path: Path, mode: str) -> None:
        """What was answered is there; what comes meanwhile waits, or is told to come again, and is done once."""
        with server_on(tmp_path, own.new_database()) as server, server.connect() as client:
            done: list[bytes] = []
            is_over = threading.Event()

            def work() -> None:
                with server.connect() as own_client:
                    while not is_over.is_set() or len(done) < 20:
                        name = b"%d" % len(done)
                        patiently(partial(own_client.create, own_client.root, name, guarded()))
                        done.append(name)

            with ThreadPoolExecutor(1) as threads:
                working = threads.submit(work)
                while len(done) < 10 and not working.done():
                    time.sleep(0.01)
                own.restart(mode=mode)
                is_over.set()
                working.result(2 * SECONDS)
            assert names_in(client) == set(done)

    @pytest.mark.parametrize("when", ["before", "after"])
    def test_connection_cut_in_the_middle_of_a_commit(self, own: PostgresInstance, tmp_path: Path, when: str) -> None:
        """Was it committed?  The server finds out: the answer of a GUARDED create is never EXIST for its own file."""
        dsn = own.new_database()
        with Proxy(own.port) as proxy:
            proxied = dsn.replace(f":{own.port}/", f":{proxy.port}/")
            with server_on(tmp_path, proxied) as server, server.connect() as client:
                client.create(client.root, b"first")
                for number in range(4):
                    proxy.cut = when
                    client.create(client.root, b"%d" % number, guarded())
                    assert proxy.cuts == number + 1
                assert names_in(client) == {b"first", b"0", b"1", b"2", b"3"}
                assert client.getattr(client.root).nlink == 2
                assert "was cut off" in server.log()
                proxy.cut = when
                client.rename(client.root, b"0", client.root, b"renamed")
                assert b"renamed" in names_in(client)

    def test_away_for_long(self, own: PostgresInstance, tmp_path: Path) -> None:
        """JUKEBOX, not IO: the client is to come again; and when the database is back, so is the service."""
        with server_on(tmp_path, own.new_database()) as server, server.connect() as client:
            file = bytes(client.create(client.root, b"file").obj)
            own.stop()
            try:
                assert status_of(client.getattr, file) is JUKEBOX
                assert status_of(client.create, client.root, b"new", guarded()) is JUKEBOX
            finally:
                own.start()
            assert patiently(partial(client.getattr, file)).fileid > 0
            patiently(partial(client.create, client.root, b"new", guarded()))
            assert "answers again" in server.log()

    def test_slow(self, own: PostgresInstance, tmp_path: Path) -> None:
        """Calls wait for a database that takes its time."""
        with server_on(tmp_path, own.new_database()) as server, server.connect() as client:
            client.create(client.root, b"first")
            own.pause()
            try:
                with ThreadPoolExecutor(1) as threads:
                    creating = threads.submit(client.create, client.root, b"second", guarded())
                    with pytest.raises(TimeoutError):
                        creating.result(1.0)
                    own.resume()
                    creating.result(SECONDS)
            finally:
                own.resume()
            assert names_in(client) == {b"first", b"second"}

    def test_full(self, own: PostgresInstance, tmp_path: Path) -> None:
        """NOSPC, and nothing is half done.  (The database says what it says when its disk is full.)"""
        dsn = own.new_database()
        database = dsn.rsplit("/", 1)[1]
        with server_on(tmp_path, dsn) as server, server.connect() as client:
            own.sql(
                """CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$""",
                "CREATE TRIGGER full_disk BEFORE INSERT ON dittofs.record EXECUTE FUNCTION full_disk()",
                database=database,
            )
            assert status_of(client.create, client.root, b"file", guarded()) is t.nfsstat3.NFS3ERR_NOSPC
            assert names_in(client) == set()
            own.sql("DROP TRIGGER full_disk ON dittofs.record", database=database)
            client.create(client.root, b"file", guarded())
            client.remove(client.root, b"file")

    def test_every_connection_is_lost_at_once(self, own: PostgresInstance, tmp_path: Path) -> None:
        with Proxy(own.port) as proxy:
            proxied = own.new_database().replace(f":{own.port}/", f":{proxy.port}/")
            with server_on(tmp_path, proxied) as server:
                clients = [server.connect() for _ in range(4)]
                calls = [
                    partial(patiently, partial(client.create, client.root, b"%d" % number, guarded()))
                    for number, client in enumerate(clients)
                ]
                at_once(*calls, proxy.drop_all)
                assert names_in(clients[0]) == {b"0", b"1", b"2", b"3"}
                for client in clients:
                    client.transport.close()


class TestAtTheStart:
    def refusal(self, server: ServerProcess) -> str:
        """What a server says that does not start."""
        with pytest.raises(AssertionError), server:
            pass
        return server.log() + server.printed

    def test_wrong_password(self, own: PostgresInstance, tmp_path: Path) -> None:
        dsn = own.new_database()
        database = dsn.rsplit("/", 1)[1]
        own.sql("DROP ROLE IF EXISTS locked", "CREATE ROLE locked LOGIN PASSWORD 'right'")
        said = self.refusal(server_on(tmp_path, own.dsn(database, user="locked", password="wr0ng-secret")))
        assert "password authentication failed" in said
        assert "wr0ng-secret" not in said

    def test_right_password_from_the_environment(self, own: PostgresInstance, tmp_path: Path) -> None:
        """The dsn is in no file, and in no output."""
        database = own.new_database().rsplit("/", 1)[1]
        own.sql("DROP ROLE IF EXISTS locked", "CREATE ROLE locked LOGIN PASSWORD 'r1ght-secret'")
        own.sql("CREATE SCHEMA dittofs AUTHORIZATION locked", database=database)
        server = server_on(tmp_path, "")
        server.config = server.config.replace('dsn = ""\n', "")
        server.environment["DITTOFS_STORES_META_DSN"] = own.dsn(database, user="locked", password="r1ght-secret")
        with server, server.connect() as client:
            client.create(client.root, b"file")
            assert "r1ght-secret" not in server.log() + server.printed
        own.sql("DROP OWNED BY locked CASCADE", database=database)

    def test_database_missing(self, own: PostgresInstance, tmp_path: Path) -> None:
        said = self.refusal(server_on(tmp_path, own.dsn("nowhere")))
        assert 'database "nowhere" does not exist' in said

    def test_nobody_listens(self, own: PostgresInstance, tmp_path: Path) -> None:
        said = self.refusal(server_on(tmp_path, f"postgresql://{OWNER}@127.0.0.1:1/nowhere"))
        assert "cannot use the PostgreSQL store" in said

    def test_newer_schema(self, own: PostgresInstance, tmp_path: Path) -> None:
        dsn = own.new_database()
        with server_on(tmp_path / "first", dsn):
            pass
        own.sql("INSERT INTO dittofs.migration VALUES (99)", database=dsn.rsplit("/", 1)[1])
        said = self.refusal(server_on(tmp_path / "second", dsn))
        assert "schema dittofs has version 99, made by a newer DittoFS" in said

    def test_two_servers_start_at_once_on_an_empty_database(self, own: PostgresInstance, tmp_path: Path) -> None:
        dsn = own.new_database()
        servers = [server_on(tmp_path / str(number), dsn) for number in range(2)]
        at_once(*[server.__enter__ for server in servers])
        try:
            with servers[0].connect() as one, servers[1].connect() as other:
                file = bytes(one.create(one.root, b"file").obj)
                assert other.lookup(other.root, b"file").object == file
        finally:
            for server in servers:
                server.kill()
