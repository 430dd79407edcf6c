"""Records in PostgreSQL: one table of keys and values in a schema of its own.  All SQL is here.

A commit is one call of a function in the database, and so one journey: it locks what the batch has read and writes, in
the order of the keys, compares versions, writes, and notes the batch's number in the row of this process.  That row
settles what became of a commit whose answer was lost: asking for it also forbids the commit to happen later.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Final

import asyncpg

from dittofs.stores.api import Change, StoreError, StoreFull, check_keys
from dittofs.stores.metadata.memory import MemoryMetadataStore
from dittofs.stores.sharing import (
    ABSENT,
    Commit,
    InDoubt,
    LockedSession,
    Overtaken,
    Range,
    Refreshed,
    StoreAway,
    Versioned,
    version_of,
)

MIGRATIONS: Final = (
    """
    CREATE TABLE record (key bytea PRIMARY KEY, version bigint NOT NULL, value bytea NOT NULL) WITH (fillfactor = 90);

    -- One row for each process that ever opened the store.
    CREATE TABLE node (
        epoch bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        name text NOT NULL,
        began timestamptz NOT NULL DEFAULT now(),
        fence integer NOT NULL DEFAULT 0,
        sequence bigint NOT NULL DEFAULT 0
    );
    CREATE TABLE reserved (file_id bigint NOT NULL);
    INSERT INTO reserved VALUES (1);

    CREATE FUNCTION commit_batch(
        of_epoch bigint, of_fence integer, of_sequence bigint, new_version bigint,
        seen_keys bytea[], seen_versions bigint[],
        inserted_keys bytea[], inserted_values bytea[],
        put_keys bytea[], put_values bytea[], deleted_keys bytea[], is_relaxed boolean
    ) RETURNS TABLE (changed_key bytea, changed_version bigint, changed_value bytea) LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM 1 FROM node WHERE epoch = of_epoch AND fence = of_fence FOR UPDATE;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'this batch was given up' USING ERRCODE = 'DF001';
        END IF;
        PERFORM 1 FROM record WHERE key = ANY (seen_keys || put_keys || deleted_keys) ORDER BY key FOR UPDATE;
        RETURN QUERY
            SELECT seen.key, coalesce(record.version, 0), record.value
            FROM unnest(seen_keys, seen_versions) AS seen (key, version) LEFT JOIN record ON record.key = seen.key
            WHERE coalesce(record.version, 0) <> seen.version;
        IF FOUND THEN
            RETURN;
        END IF;
        DELETE FROM record WHERE key = ANY (deleted_keys);
        -- A key that somebody else inserts meanwhile is an error here: he was faster.
        INSERT INTO record SELECT new.key, new_version, new.value
            FROM unnest(inserted_keys, inserted_values) AS new (key, value);
        INSERT INTO record SELECT new.key, new_version, new.value
            FROM unnest(put_keys, put_values) AS new (key, value)
            ON CONFLICT (key) DO UPDATE SET version = excluded.version, value = excluded.value;
        UPDATE node SET sequence = of_sequence WHERE epoch = of_epoch;
        IF is_relaxed THEN
            PERFORM set_config('synchronous_commit', 'off', true);
        END IF;
    END $$;
    """,
)

REFRESH: Final = """
    SELECT 0::bigint, seen.key, coalesce(record.version, 0), record.value
    FROM unnest($1::bytea[], $2::bigint[]) AS seen (key, version) LEFT JOIN record ON record.key = seen.key
    WHERE coalesce(record.version, 0) <> seen.version
"""
REFRESH_WITH_RANGES: Final = f"""{REFRESH}
    UNION ALL
    SELECT wanted.number, found.key, found.version, found.value
    FROM unnest($3::bytea[], $4::bytea[], $5::bigint[]) WITH ORDINALITY AS wanted (low, high, most, number)
    CROSS JOIN LATERAL (
        SELECT * FROM record WHERE record.key >= wanted.low AND record.key < wanted.high
        ORDER BY record.key LIMIT wanted.most
    ) AS found
"""
LOCK: Final = "SELECT 1 FROM record WHERE key = ANY ($1::bytea[]) ORDER BY key FOR UPDATE"
COMMIT: Final = "SELECT * FROM commit_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)"

# A plan made while the table was small must not read all of it when it is large.
SESSION: Final = """
    SET search_path TO {schema};
    SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off;
    SET plan_cache_mode = force_generic_plan;
    SET idle_in_transaction_session_timeout = '30s';
"""

NO_DSN: Final = (
    "the dsn of the PostgreSQL store cannot be understood; it looks like postgresql://user:password@host:5432/database"
)
CONNECT_SECONDS = 5.0
COMMAND_SECONDS = 60.0
CONNECTIONS = 4

# What a server says when it is not there, or not yet, or not any more; the class of the code, or the code.
AWAY: Final = ("08", "57P", "25006", "53300", "28", "3D000")
FULL: Final = ("53100", "53200", "53400", "54000")
OVERTAKEN: Final = ("40001", "40P01", "23505", "55P03")


LOST: Final = (OSError, TimeoutError, asyncpg.InterfaceError, asyncpg.InternalClientError)
"""How a connection ends that is no more; the last one if it had ended, and asyncpg had not noticed yet."""
TROUBLE: Final = (*LOST, asyncpg.PostgresError)


async def _no_reset(connection: Any) -> None:
    """Nothing that we do outlasts its transaction; a reset would cost a journey, and our session's settings."""


@contextmanager
def _in_doubt() -> Iterator[None]:
    """Around what commits: a connection that ends there leaves open whether it did."""
    try:
        yield
    except LOST as error:
        raise InDoubt(f"PostgreSQL: the connection was lost in a commit: {type(error).__name__}") from None
    except asyncpg.PostgresError as error:
        if (error.sqlstate or "").startswith(("08", "57P")):
            raise InDoubt(f"PostgreSQL: the connection was lost in a commit: {error}") from None
        raise


async def _roll_back(transaction: Any) -> None:
    """A connection that is lost rolls back by itself."""
    with suppress(*TROUBLE):
        await transaction.rollback()


class PostgresMetadataStore:
    """A `SharedStore`.  `dsn` is a secret, and is never part of a message."""

    def __init__(self, dsn: str, *, schema: str = "dittofs", connections: int = CONNECTIONS):
        self._dsn = dsn
        self._schema = schema
        self._connections = connections
        self._pool: Any = None
        self._epoch = 0
        self._fence = 0
        self.queries = 0
        """Journeys to the database so far."""

    # Life.

    async def open(self) -> int:
        try:
            self._pool = await asyncpg.create_pool(
                self._dsn,
                min_size=0,  # or asyncpg tells the log, at length, whenever it cannot have the least of connections
                max_size=self._connections,
                timeout=CONNECT_SECONDS,
                command_timeout=COMMAND_SECONDS,
                init=self._prepare,
                reset=_no_reset,
            )
            async with self._pool.acquire() as connection:
                await self._migrate(connection)
                self._epoch = await connection.fetchval(
                    "INSERT INTO node (name) VALUES ($1) RETURNING epoch", socket.gethostname()
                )
        except (ValueError, asyncpg.InterfaceError):
            # Which part it is would have to be told with parts of the secret.
            raise StoreError(NO_DSN) from None
        except TROUBLE as error:
            await self.close()
            raise StoreError(f"cannot use the PostgreSQL store: {self._without_secrets(error)}") from None
        except StoreError:
            await self.close()
            raise
        return self._epoch

    async def close(self) -> None:
        if self._pool is None:
            return
        pool, self._pool = self._pool, None
        try:
            await asyncio.wait_for(pool.close(), CONNECT_SECONDS)
        except TROUBLE:
            pool.terminate()

    async def _prepare(self, connection: Any) -> None:
        await connection.execute(SESSION.format(schema=self._schema))

    async def _migrate(self, connection: Any) -> None:
        """Bring the schema to what this program knows.  Whoever else starts now waits for us."""
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock(hashtext('dittofs'), hashtext($1))", self._schema)
            # Not "IF NOT EXISTS", which needs the right to make schemas even where there is nothing to make.
            if not await connection.fetchval("SELECT count(*) FROM pg_namespace WHERE nspname = $1", self._schema):
                await connection.execute(f"CREATE SCHEMA {self._schema}")
            await connection.execute("CREATE TABLE IF NOT EXISTS migration (version integer PRIMARY KEY)")
            found = await connection.fetchval("SELECT coalesce(max(version), 0) FROM migration")
            if found > len(MIGRATIONS):
                raise StoreError(
                    f"schema {self._schema} has version {found}, made by a newer DittoFS; "
                    f"this one knows versions up to {len(MIGRATIONS)}"
                )
            for version in range(found + 1, len(MIGRATIONS) + 1):
                await connection.execute(MIGRATIONS[version - 1])
                await connection.execute("INSERT INTO migration VALUES ($1)", version)

    # Reading.

    async def refresh(self, known: Mapping[bytes, int], ranges: Sequence[Range]) -> Refreshed:
        async with self._connection() as connection:
            self.queries += 1
            keys = (list(known), list(known.values()))
            if not ranges:
                return Refreshed([Versioned(*row[1:]) for row in await connection.fetch(REFRESH, *keys)], [])
            rows = await connection.fetch(
                REFRESH_WITH_RANGES, *keys, *(list(part) for part in zip(*ranges, strict=True))
            )
            parts: list[list[Versioned]] = [[] for _ in range(len(ranges) + 1)]
            for number, key, version, value in rows:
                parts[number].append(Versioned(key, version, value))
            return Refreshed(parts[0], parts[1:])

    # Writing.

    async def commit(self, batch: Commit) -> Sequence[Versioned]:
        async with self._connection() as connection:
            return await self.commit_on(connection, batch)

    @asynccontextmanager
    async def locked(self, known: Mapping[bytes, int]) -> AsyncIterator[LockedSession]:
        async with self._connection() as connection:
            transaction = connection.transaction()
            self.queries += 4
            await transaction.start()
            session = _Locked(self, connection)
            try:
                await connection.execute(LOCK, list(known))
                rows = await connection.fetch(REFRESH, list(known), list(known.values()))
                session.changed = [Versioned(*row[1:]) for row in rows]
                yield session
            except BaseException:
                await _roll_back(transaction)
                raise
            with _in_doubt():
                await transaction.commit()

    async def commit_on(self, connection: Any, batch: Commit) -> Sequence[Versioned]:
        check_keys(list(batch.values.items()))
        seen = batch.seen
        inserted: dict[bytes, bytes] = {}
        put: dict[bytes, bytes] = {}
        deleted: list[bytes] = []
        for key, value in batch.values.items():
            if value is None:
                deleted.append(key)
            elif seen.get(key) == ABSENT:
                inserted[key] = value
            else:
                put[key] = value
        self.queries += 1
        with _in_doubt():
            rows = await connection.fetch(
                COMMIT,
                self._epoch,
                self._fence,
                batch.sequence,
                version_of(self._epoch, batch.sequence),
                list(seen),
                list(seen.values()),
                list(inserted),
                list(inserted.values()),
                list(put),
                list(put.values()),
                deleted,
                batch.is_relaxed,
            )
        return [Versioned(*row) for row in rows]

    async def was_committed(self, sequence: int) -> bool:
        async with self._connection() as connection:
            self.queries += 1
            # The row is locked by a commit that is still under way: this waits for its end.
            found = await connection.fetchrow(
                "UPDATE node SET fence = fence + 1 WHERE epoch = $1 RETURNING fence, sequence", self._epoch
            )
            if found is None:
                raise StoreError("the database does not know this server any more; was it restored? Start anew")
            self._fence = found["fence"]
            return bool(found["sequence"] >= sequence)

    async def reserve_file_ids(self, count: int) -> int:
        async with self._connection() as connection:
            self.queries += 1
            end = await connection.fetchval("UPDATE reserved SET file_id = file_id + $1 RETURNING file_id", count)
            return int(end) - count

    async def all_records(self) -> list[Change]:
        """Everything at one moment, over a connection of its own.  Changes nothing, and needs no `open`."""
        try:
            connection = await asyncpg.connect(self._dsn, timeout=CONNECT_SECONDS)
            try:
                found = await connection.fetch(f"SELECT key, value FROM {self._schema}.record")
            finally:
                await connection.close()
        except (ValueError, asyncpg.InterfaceError):
            raise StoreError(NO_DSN) from None
        except TROUBLE as error:
            raise StoreError(f"cannot use the PostgreSQL store: {self._without_secrets(error)}") from None
        return [(row["key"], row["value"]) for row in found]

    # Trouble.

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Any]:
        """A connection of the pool; its errors in our words."""
        if self._pool is None:
            raise StoreAway("the PostgreSQL store is closed")
        try:
            async with self._pool.acquire(timeout=CONNECT_SECONDS) as connection:
                yield connection
        except TROUBLE as error:
            raise self.error_of(error) from None

    def error_of(self, error: Exception) -> StoreError:
        text = f"PostgreSQL: {self._without_secrets(error)}"
        if not isinstance(error, asyncpg.PostgresError):
            return StoreAway(text)
        code = error.sqlstate or ""
        if code.startswith(OVERTAKEN):
            return Overtaken(text)
        if code.startswith(FULL):
            return StoreFull(text)
        return StoreAway(text) if code.startswith(AWAY) else StoreError(text)

    def _without_secrets(self, error: Exception) -> str:
        """What went wrong in one line, without the dsn."""
        text = " ".join(str(error).split()) or type(error).__name__
        return text.replace(self._dsn, "the dsn") if self._dsn else text


class _Locked:
    """A transaction that holds the locks of its keys."""

    def __init__(self, store: PostgresMetadataStore, connection: Any):
        self._store = store
        self._connection = connection
        self.changed: Sequence[Versioned] = ()

    async def commit(self, batch: Commit) -> Sequence[Versioned]:
        return await self._store.commit_on(self._connection, batch)


class PostgresSnapshot(MemoryMetadataStore):
    """All records as they are at one moment, for work on data that nobody serves, or that others go on serving."""

    def __init__(self, dsn: str, *, schema: str = "dittofs"):
        super().__init__()
        self._store = PostgresMetadataStore(dsn, schema=schema)

    def open(self) -> None:
        self.apply(asyncio.run(self._store.all_records()))

    def flush(self) -> None:
        raise StoreError("a snapshot of a PostgreSQL store cannot be changed")
