"""All settings: what they are called, what they accept, what they are when nobody says anything [OPS-2].

Only declarations: `dittofs.loading` fills them from file, environment and flags.
"""

import os
import platform
import re
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from dittofs.declared import Choice, Integer, ListOf, Seconds, Text

Network = IPv4Network | IPv6Network
LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["text", "json"]
PortMapperMode = Literal["auto", "embedded", "host", "off"]

UINT32_MAX = 2**32 - 1
UNLIMITED = 2**63 - 1


def _address(text: str) -> str:
    try:
        ip_address(text)
    except ValueError:
        raise ValueError from None
    return text


def _network(text: str) -> Network:
    try:
        return ip_network(text)
    except ValueError as error:
        try:
            wider = ip_network(text, strict=False)
        except ValueError:
            raise ValueError from error
        raise ValueError(f"the address has bits behind its prefix; {wider} is that network") from None


def _share_name(text: str) -> str:
    if not text.startswith("/"):
        raise ValueError("it must start with /")
    if len(text) > 1 and (text.endswith("/") or any(part in ("", ".", "..") for part in text[1:].split("/"))):
        raise ValueError("no empty part, no . and no .. between the slashes, and no slash at the end")
    if "\0" in text or len(os.fsencode(text)) > 1024:
        raise ValueError("at most 1,024 bytes, and no NUL")
    return text


def _path(text: str) -> Path:
    if not text or "\0" in text:
        raise ValueError
    return Path(text).expanduser()


def _dsn(text: str) -> str:
    if not text.startswith(("postgresql://", "postgres://")):
        raise ValueError
    return text


def _schema_name(text: str) -> str:
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", text) or text.startswith("pg_"):
        raise ValueError
    return text


def _host_name(text: str) -> str:
    if not text or len(text) > 255 or not text.isprintable() or " " in text:
        raise ValueError
    return text


def _endpoint(text: str) -> str:
    if text:
        endpoint_of(text)
    return text


def endpoint_of(text: str) -> tuple[str, int]:
    """Address and port of `127.0.0.1:8080` or `[::1]:8080`.  Raises ValueError."""
    address, _, port = text.rpartition(":")
    address = address[1:-1] if address.startswith("[") and address.endswith("]") else address
    ip_address(address)
    if not port.isdecimal() or int(port) > 65_535:
        raise ValueError("the port is a number from 0 to 65535")
    return address, int(port)


FilePath = Annotated[Path, Text("a path", _path)]
UserId = Annotated[int, Integer(0, UINT32_MAX)]
Endpoint = Annotated[
    str, Text('an address and a port, such as 127.0.0.1:8080 or [::1]:8080, or "" for none', _endpoint)
]
ByteCount = Annotated[int, Integer(1, UNLIMITED, "bytes")]


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where the server listens and keeps things."""

    listen: Annotated[tuple[str, ...], ListOf(Text("an IPv4 or IPv6 address, such as 127.0.0.1 or ::", _address))] = (
        "0.0.0.0",
        "::",
    )
    port: Annotated[int, Integer(0, 65535, "0: any free one")] = 12049
    portmap: PortMapperMode = "auto"
    data: FilePath


class LogSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What is written to standard error."""

    level: LogLevel = "info"
    format: LogFormat = "text"


class LockSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of the lock table [LOCK-6] and of its callbacks [NLM-5]."""

    grace_seconds: Annotated[float, Seconds(0, 3600, "0: no grace period")] = 90
    max_per_file: Annotated[int, Integer(1, UNLIMITED)] = 1000
    max_per_client: Annotated[int, Integer(1, UNLIMITED)] = 10_000
    max_total: Annotated[int, Integer(1, UNLIMITED)] = 100_000
    max_waiters_per_file: Annotated[int, Integer(0, UNLIMITED)] = 100
    blocking_timeout_seconds: Annotated[float, Seconds(0, 86_400, "0: no limit")] = 0
    callback_attempt_seconds: Annotated[float, Seconds(0.1, 3600)] = 5
    callback_give_up_seconds: Annotated[float, Seconds(0.1, 3600)] = 5


class AdapterClientSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The client registry of one adapter [CLIENT-1]."""

    max: Annotated[int, Integer(1, UNLIMITED)] = 10_000
    ttl_seconds: Annotated[float, Seconds(0, 86_400, "0: released at once")] = 0
    stale_check_seconds: Annotated[float, Seconds(0.1, 3600)] = 30


class ClientSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One table per adapter."""

    nlm: AdapterClientSettings = AdapterClientSettings()


class NsmSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Status monitoring [NSM-4]."""

    name: Annotated[str, Text("a host name of at most 255 characters", _host_name)] = msgspec.field(
        default_factory=lambda: platform.node() or "localhost"
    )


class LimitSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What one client, or all of them, can make the server spend [NFS-6]."""

    max_connections: Annotated[int, Integer(1, 1_000_000)] = 4096
    max_connections_per_client: Annotated[int, Integer(1, 1_000_000)] = 1024
    max_record_bytes: Annotated[int, Integer(4096, 64 * 2**20, "bytes")] = 2**20 + 65_536
    max_fragments: Annotated[int, Integer(1, 1_000_000)] = 1024
    idle_timeout_seconds: Annotated[float, Seconds(0, 86_400, "0: never")] = 3600
    slow_sender_seconds: Annotated[float, Seconds(0.1, 3600)] = 30
    max_calls_per_connection: Annotated[int, Integer(1, 100_000)] = 256
    max_reply_bytes_per_connection: ByteCount = 2**16
    max_replay_bytes: ByteCount = 16 * 2**20
    busy_poll_microseconds: Annotated[int, Integer(0, 10_000, "0: never")] = 100
    udp: bool = True


class ApiSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The control plane: REST and the web page [OPS-3]."""

    listen: Endpoint = "127.0.0.1:8080"
    tls_certificate: Annotated[str, Text("the path of a PEM file, below the data directory if it is relative")] = ""
    tls_private: Annotated[str, Text("the path of a PEM file, below the data directory if it is relative")] = ""
    """What belongs to the certificate and must not be seen; empty: it is in the certificate's file."""


class MetricsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where Prometheus finds us [OPS-4].  There is no token: whoever reaches the port may read."""

    listen: Endpoint = "127.0.0.1:9049"


class ShareSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One exported tree and who may do what in it."""

    name: Annotated[str, Text("the name of a share, such as /export", _share_name)]
    metadata: Annotated[str, Text("the name of a store")] = "meta"
    content: Annotated[str, Text("the name of a store")] = "files"
    root_uid: UserId = 0
    root_gid: UserId = 0
    root_mode: Annotated[int, Integer(0, 0o7777, "octal, as in chmod", is_octal=True)] = 0o1777
    durability: Literal["durable", "relaxed"] = "durable"
    read_only: bool = False
    squash: Literal["none", "root", "all"] = "root"
    anonymous_uid: UserId = 65534
    anonymous_gid: UserId = 65534
    clients: Annotated[
        tuple[Network, ...], ListOf(Text("a network, such as 192.0.2.0/24, ::/0 or a single address", _network))
    ] = (ip_network("0.0.0.0/0"), ip_network("::/0"))
    security: Annotated[tuple[Literal["sys", "none"], ...], ListOf(Choice(("sys", "none")))] = ("sys",)
    mandatory_locks: bool = False


class MemoryOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Content in memory; metadata has no options."""

    capacity_bytes: ByteCount = 2**30


class EmbeddedOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The embedded metadata store: a directory with a log and an LMDB file."""

    path: FilePath
    cache_records: Annotated[int, Integer(0, UNLIMITED)] = 100_000
    overlay_bytes: Annotated[int, Integer(2**20, UNLIMITED, "bytes")] = 64 * 2**20


class DirectoryOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Content in the files of a local directory."""

    path: FilePath


class PostgresOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Metadata in a PostgreSQL database, in a schema of its own."""

    dsn: Annotated[str, Text("an address such as postgresql://user:password@host:5432/database", _dsn)]
    schema: Annotated[str, Text("a name of small letters, digits and _, such as dittofs", _schema_name)] = "dittofs"
    connections: Annotated[int, Integer(2, 1000)] = 4
    cache_records: Annotated[int, Integer(0, UNLIMITED)] = 100_000


class StoreSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One named store.  `options` are the keyword arguments of its class; a `path` is absolute here."""

    name: str
    kind: str
    options: dict[str, Any]

    @property
    def is_own_class(self) -> bool:
        """True for "package.module:Class"."""
        return ":" in self.kind


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything, checked and complete."""

    server: ServerSettings
    log: LogSettings = LogSettings()
    stores: dict[str, StoreSettings]
    shares: tuple[ShareSettings, ...]
    locks: LockSettings = LockSettings()
    clients: ClientSettings = ClientSettings()
    nsm: NsmSettings = msgspec.field(default_factory=NsmSettings)
    limits: LimitSettings = LimitSettings()
    api: ApiSettings = ApiSettings()
    metrics: MetricsSettings = MetricsSettings()
    origins: dict[str, str] = {}
    """Settings that a flag or a variable gave, and which."""
