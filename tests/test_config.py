"""Settings from file, environment and flags [OPS-2]."""

import re
import sys
import tomllib
from collections.abc import Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from dittofs import config
from dittofs.declared import Anything, environment_name, is_secret, value_of
from dittofs.loading import SECTIONS, ConfigError, default_data_directory, load, show

# The shape that issue text and tests outside the project rely on.
FULL = """
[server]
listen = ["0.0.0.0", "::"]
port = 12049
portmap = "auto"
data = "/var/lib/dittofs"

[stores.meta]
kind = "embedded"
path = "meta"

[stores.files]
kind = "directory"
path = "files"

[[shares]]
name = "/export"
metadata = "meta"
content = "files"
root_uid = 0
root_gid = 0
root_mode = 0o1777
durability = "durable"
read_only = false
squash = "root"
anonymous_uid = 65534
anonymous_gid = 65534
clients = ["0.0.0.0/0", "::/0"]
security = ["sys"]
mandatory_locks = false

[locks]
grace_seconds = 90
max_per_file = 1000
max_per_client = 10000
max_total = 100000
max_waiters_per_file = 100
blocking_timeout_seconds = 0
callback_attempt_seconds = 5
callback_give_up_seconds = 5

[clients.nlm]
max = 10000
ttl_seconds = 0
stale_check_seconds = 30
"""


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "dittofs.toml"
    file.write_text(text)
    return file


def problems_of(tmp_path: Path, text: str, environment: Mapping[str, str] | None = None) -> list[str]:
    file = written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load(file, environment=environment or {})
    assert all(problem.startswith(f"{file}: ") for problem in caught.value.problems)
    return [problem.removeprefix(f"{file}: ") for problem in caught.value.problems]


def test_the_documented_shape_is_the_default(tmp_path: Path) -> None:
    """The example file says exactly what holds without any file, but for where the data is."""
    given = load(written(tmp_path, FULL), environment={})
    default = load(environment={}, flags={"server.data": "/var/lib/dittofs"})
    assert msgspec.structs.replace(given, origins={}) == msgspec.structs.replace(default, origins={})
    assert given.stores["meta"].options["path"] == Path("/var/lib/dittofs/meta")
    assert given.shares[0].root_mode == 0o1777


def test_defaults_without_any_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """[OPS-1]: one share on embedded metadata and a directory, below the user's data directory."""
    monkeypatch.setattr(sys, "platform", "linux")
    settings = load(environment={"XDG_DATA_HOME": "/home/u/data"})
    assert settings.server.data == Path("/home/u/data/dittofs")
    assert [share.name for share in settings.shares] == ["/export"]
    assert {name: store.kind for name, store in settings.stores.items()} == {"meta": "embedded", "files": "directory"}
    assert settings.stores["files"].options["path"] == Path("/home/u/data/dittofs/files")


@pytest.mark.parametrize(
    ("platform", "environment", "expected"),
    [
        ("linux", {}, ".local/share/dittofs"),
        ("linux", {"XDG_DATA_HOME": "not/absolute"}, ".local/share/dittofs"),
        ("darwin", {"XDG_DATA_HOME": "/ignored"}, "Library/Application Support/dittofs"),
    ],
)
def test_the_data_directory_follows_the_platform(
    monkeypatch: pytest.MonkeyPatch, platform: str, environment: dict[str, str], expected: str
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    assert default_data_directory(environment) == Path.home() / expected


def test_flags_win_over_environment_over_file(tmp_path: Path) -> None:
    file = written(tmp_path, "[server]\nport = 1\nportmap = 'off'\ndata = '/d'\n[log]\nlevel = 'error'\n")
    environment = {"DITTOFS_SERVER_PORT": "2", "DITTOFS_SERVER_PORTMAP": "host"}
    settings = load(file, environment=environment, flags={"server.port": "3"})
    assert (settings.server.port, settings.server.portmap, settings.log.level) == (3, "host", "error")
    assert settings.origins == {"server.port": "the command line", "server.portmap": "DITTOFS_SERVER_PORTMAP"}


def test_a_relative_data_directory_counts_from_whoever_says_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    file = written(tmp_path / "etc", "[server]\ndata = 'd'\n")
    assert load(file, environment={}).server.data == tmp_path / "etc" / "d"
    assert load(file, environment={}, flags={"server.data": "d"}).server.data == tmp_path / "here" / "d"
    assert load(file, environment={"DITTOFS_SERVER_DATA": "d"}).server.data == tmp_path / "here" / "d"


def scalars(table: type[msgspec.Struct], path: str) -> list[tuple[str, Any, Any]]:
    """Path, annotation and default of every setting of a table and its sub-tables."""
    found = []
    for field in msgspec.structs.fields(table):
        inner = f"{path}.{field.name}"
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            found += scalars(field.type, inner)
        else:
            found.append((inner, field.type, field.default))
    return found


def another_value(annotation: Any, default: Any) -> tuple[str, Any]:
    """The text of a variable and the value it must lead to: allowed, and not the default."""
    if isinstance(default, bool):
        return str(not default).lower(), not default
    if isinstance(default, int | float):
        return str(default + 1), default + 1
    if words := [word for word in get_args(annotation) if isinstance(word, str) and word != default]:
        return words[0], words[0]
    raise AssertionError(f"no other value is known for {annotation}")


# What `another_value` cannot guess from the annotation.
SPECIAL = {
    "server.data": ("/elsewhere", Path("/elsewhere")),
    "server.listen": ("127.0.0.1, ::1", ("127.0.0.1", "::1")),
    "nsm.name": ("nas.example", "nas.example"),
    "api.listen": ("[::1]:0", "[::1]:0"),
    "api.tls_certificate": ("api.pem", "api.pem"),
    "api.tls_private": ("private.pem", "private.pem"),
    "metrics.listen": ("", ""),
    "shares[0].name": ("/other", "/other"),
    "shares[0].metadata": ("mem", "mem"),
    "shares[0].content": ("mem", "mem"),
    "shares[0].root_mode": ("0755", 0o755),
    "shares[0].clients": ("192.0.2.0/24,::1", (ip_network("192.0.2.0/24"), ip_network("::1/128"))),
    "shares[0].security": ("none", ("none",)),
}
EVERY_SETTING = [s for name, table in SECTIONS.items() for s in scalars(table, name)] + scalars(
    config.ShareSettings, "shares[0]"
)


@pytest.mark.parametrize(("path", "annotation", "default"), EVERY_SETTING, ids=[s[0] for s in EVERY_SETTING])
def test_every_setting_has_its_variable(tmp_path: Path, path: str, annotation: Any, default: Any) -> None:
    text, expected = SPECIAL.get(path) or another_value(annotation, default)
    file = written(tmp_path, FULL + "\n[stores.mem]\nkind = 'memory'\n")
    settings: Any = load(file, environment={environment_name(path): text})
    value = settings.shares[0] if path.startswith("shares") else settings
    for part in path.removeprefix("shares[0].").split("."):
        value = getattr(value, part)
    assert value == expected
    assert settings.origins == {path: environment_name(path)}


def test_store_options_have_variables_too(tmp_path: Path) -> None:
    environment = {"DITTOFS_STORES_META_PATH": "m", "DITTOFS_STORES_FILES_KIND": "memory"}
    text = FULL.replace('path = "files"\n', "")
    settings = load(written(tmp_path, text), environment=environment)
    assert settings.stores["meta"].options["path"] == Path("/var/lib/dittofs/m")
    assert settings.stores["files"].kind == "memory"


REFUSED = [
    ("[server]\nprot = 1", ["server.prot: no such setting; did you mean port? (allowed: listen, port, portmap, data)"]),
    ("[sever]\nport = 1", ["sever: no such setting; did you mean server? (allowed: server, log, "]),
    ("[server]\nport = 65536", ["server.port = 65536: must be a whole number from 0 to 65535"]),
    ("[server]\nport = true", ["server.port = True: must be a whole number"]),
    ("[server]\nport = '12049'", ['server.port = "12049": must be a whole number']),
    ("[server]\nportmap = 'atuo'", ["must be one of auto, embedded, host, off; did you mean auto?"]),
    ("[server]\nlisten = []", ["server.listen = []: must have at least 1 entry"]),
    ("[server]\nlisten = '::'", ['server.listen = "::": must be a list']),
    ("[server]\nlisten = ['::', 'eth0']", ['entry 1 ("eth0") must be an IPv4 or IPv6 address']),
    ("[server]\ndata = ''", ['server.data = "": must be a path']),
    ("server = 3", ["server = 3: must be a table of settings"]),
    ("[locks]\ngrace_seconds = -1", ["locks.grace_seconds = -1: must be a number of seconds from 0 to 3600"]),
    ("[locks]\nmax_total = 0", ["locks.max_total = 0: must be a whole number from 1"]),
    ("[clients.nml]\nmax = 1", ["clients.nml: no such setting; did you mean nlm?"]),
    ("[clients.nlm]\nmxa = 1", ["clients.nlm.mxa: no such setting; did you mean max?"]),
    ("[nsm]\nname = ''", ['nsm.name = "": must be a host name']),
    ("[limits]\nudp = 1", ["limits.udp = 1: must be true or false"]),
    ("shares = []", ["shares: must be one or more tables, each headed [[shares]]"]),
    ("[shares]\nname = '/a'", ["shares: must be one or more tables"]),
    ("[[shares]]\nsquash = 'root'", ["shares[0].name: is needed"]),
    ("[[shares]]\nname = 'export'", ['shares[0].name = "export": must be the name of a share, such as /export']),
    ("[[shares]]\nname = '/a/'", ["no slash at the end"]),
    ("[[shares]]\nname = '/a/../b'", ["no .. between the slashes"]),
    ("[[shares]]\nname = '/a'\n[[shares]]\nname = '/a'", ['shares[1].name = "/a": shares[0] has that name already']),
    ("[[shares]]\nname = '/a'\nmetadata = 'mta'", ["no such store; did you mean meta? (there are: meta, files)"]),
    ("[[shares]]\nname = '/a'\nmetadata = 'files'", ["stores.files is of kind directory; metadata needs memory"]),
    ("[[shares]]\nname = '/a'\ncontent = 'meta'", ["stores.meta is of kind embedded; content needs memory, directory"]),
    ("[[shares]]\nname = '/a'\nclients = ['10.0.0.1/8']", ["10.0.0.0/8 is that network"]),
    ("[[shares]]\nname = '/a'\nclients = ['lan']", ['entry 0 ("lan") must be a network, such as 192.0.2.0/24']),
    ("[[shares]]\nname = '/a'\nsecurity = ['krb5']", ['entry 0 ("krb5") must be one of sys, none']),
    ("[[shares]]\nname = '/a'\nroot_mode = 0o10000", ["must be a whole number from 0o0000 to 0o7777"]),
    ("[[shares]]\nname = '/a'\nanonymous_uid = 4294967296", ["shares[0].anonymous_uid = 4294967296: must be"]),
    ("[stores]\nmeta = 'embedded'", ["stores.meta = \"embedded\": must be a table of settings", "no such store"]),
    ("[stores.meta]\npath = 'x'\n[stores.files]\nkind = 'memory'", ["stores.meta.kind: is needed: memory, embedded"]),
    ("[stores.meta]\nkind = 'memroy'\n[stores.files]\nkind = 'memory'", ["did you mean memory?"]),
    ("[stores.meta]\nkind = 'memory'\npath = 'x'\n[stores.files]\nkind = 'memory'", ["stores.meta.path: no such"]),
    (
        "[stores.meta]\nkind = 'embedded'\npath = 'x'\n[stores.files]\nkind = 'directory'\npath = 'x/y'",
        ["stores.files.path", "stores.meta is kept there as well"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), REFUSED, ids=[text.replace("\n", " ") for text, _ in REFUSED])
def test_refused_by_name_with_what_is_allowed(tmp_path: Path, text: str, expected: list[str]) -> None:
    problems = "\n".join(problems_of(tmp_path, text))
    for part in expected:
        assert part in problems


POSTGRES = "[stores.meta]\nkind = 'postgres'\n{}[stores.files]\nkind = 'memory'"


def test_dsn_comes_from_the_environment_and_is_never_shown(tmp_path: Path) -> None:
    file = written(tmp_path, POSTGRES.format(""))
    settings = load(file, environment={"DITTOFS_STORES_META_DSN": "postgresql://u:hush@h/d"})
    assert settings.stores["meta"].options["dsn"] == "postgresql://u:hush@h/d"
    assert "hush" not in show(settings)
    assert "DITTOFS_STORES_META_DSN" in show(settings)


@pytest.mark.parametrize("options", ["", "dsn = 'mysql://u:hush@h/d'\n", "dsn = 'postgresql://h/d'\nschema = 'a b'\n"])
def test_postgres_needs_a_dsn_and_a_plain_schema(tmp_path: Path, options: str) -> None:
    problems = problems_of(tmp_path, POSTGRES.format(options))
    assert any("stores.meta." in problem for problem in problems)
    assert not any("hush" in problem for problem in problems)


@pytest.mark.parametrize("kind", ["s3"])
def test_stores_that_do_not_exist_yet_are_refused_by_name(tmp_path: Path, kind: str) -> None:
    text = f"[stores.meta]\nkind = '{kind}'\ndsn = 'postgres://u:pw@h/d'\n[stores.files]\nkind = 'memory'"
    (problem,) = problems_of(tmp_path, text)
    assert f'stores.meta.kind = "{kind}": this version has no {kind} store yet; use memory, embedded' in problem


def test_all_problems_are_named_at_once(tmp_path: Path) -> None:
    text = "[server]\nport = -1\nfoo = 1\n[[shares]]\nname = 'x'\nsquash = 'y'\n"
    assert len(problems_of(tmp_path, text)) == 4


def test_an_unknown_variable_of_ours_is_refused_and_others_are_not() -> None:
    """A service named dittofs in a container orchestrator sets DITTOFS_SERVICE_HOST and DITTOFS_PORT by itself."""
    load(environment={"DITTOFS_SERVICE_HOST": "x", "DITTOFS_PORT": "tcp://x", "DITTOFS_CONFIG": "x"})
    with pytest.raises(ConfigError, match=r"DITTOFS_SERVER_PROT: no such setting; did you mean DITTOFS_SERVER_PORT\?"):
        load(environment={"DITTOFS_SERVER_PROT": "1"})
    with pytest.raises(ConfigError, match="DITTOFS_SHARES_1_NAME: no such setting"):
        load(environment={"DITTOFS_SHARES_1_NAME": "/b"})


def test_a_bad_variable_is_named(tmp_path: Path) -> None:
    (problem,) = problems_of(tmp_path, FULL, {"DITTOFS_SHARES_0_READ_ONLY": "maybe"})
    assert problem == 'shares[0].read_only = "maybe" (from DITTOFS_SHARES_0_READ_ONLY): must be true or false'


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"[server\n", "is not valid TOML: "),
        (b"\xff\xfe", "is not UTF-8 text"),
    ],
)
def test_a_file_that_cannot_be_used(tmp_path: Path, content: bytes | None, expected: str) -> None:
    file = tmp_path / "x.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=expected):
        load(file, environment={})


OWN_STORE = """
[stores.meta]
kind = "memory"
[stores.mine]
kind = "acme.stores:Shelf"
path = "shelf"
colour = "red"
shelves = 7
is_deep = true
api_token = "hunter2"
url = "https://me:hunter2@host/x"
login = {user = "me", password = "hunter2"}
[[shares]]
name = "/export"
content = "mine"
"""


def test_a_store_of_ones_own_gets_its_keys_as_they_stand(tmp_path: Path) -> None:
    """[STORE-4]: every key but `kind` is an argument of the class; a path is below the data directory."""
    environment = {"DITTOFS_STORES_MINE_SHELVES": "8", "DITTOFS_STORES_MINE_COLOUR": "9"}
    settings = load(written(tmp_path, OWN_STORE), environment=environment, flags={"server.data": "/d"})
    store = settings.stores["mine"]
    assert store.is_own_class
    assert store.options == {
        "path": Path("/d/shelf"),
        "colour": "9",
        "shelves": 8,
        "is_deep": True,
        "api_token": "hunter2",
        "url": "https://me:hunter2@host/x",
        "login": {"user": "me", "password": "hunter2"},
    }


@pytest.mark.parametrize("kind", ["acme", "acme:", ":Shelf", "acme.:Shelf", "acme:Shelf:x", "1a:b"])
def test_what_is_no_class_is_refused(tmp_path: Path, kind: str) -> None:
    assert f'stores.mine.kind = "{kind}": must be one of' in "\n".join(
        problems_of(tmp_path, OWN_STORE.replace("acme.stores:Shelf", kind))
    )


@pytest.mark.parametrize("text", [FULL, OWN_STORE.replace(":hunter2", "").replace("hunter2", "")])
def test_what_is_shown_reads_back_as_the_same(tmp_path: Path, text: str) -> None:
    settings = load(written(tmp_path, text), environment={})
    again = load(written(tmp_path, show(settings)), environment={})
    assert msgspec.structs.replace(again, origins={}) == settings


def test_secrets_are_masked_in_what_is_shown(tmp_path: Path) -> None:
    """[OPS-5]."""
    text = show(load(written(tmp_path, OWN_STORE), environment={}))
    assert "hunter2" not in text
    store = tomllib.loads(text)["stores"]["mine"]
    assert store["api_token"] == store["login"]["password"] == "********"
    assert store["url"] == "https://me:********@host/x"


def test_what_is_shown_says_who_said_it(tmp_path: Path) -> None:
    text = show(load(written(tmp_path, FULL), environment={"DITTOFS_SERVER_PORT": "7"}))
    assert "port = 7  # from DITTOFS_SERVER_PORT\n" in text


@pytest.mark.parametrize(
    ("key", "expected"),
    [(key, True) for key in ("dsn", "secret_access_key", "access_key", "password", "api-token")]
    + [(key, False) for key in ("keys", "monkey", "port", "path")],
)
def test_what_counts_as_a_secret(key: str, expected: bool) -> None:
    assert is_secret(key) is expected


def test_no_declared_setting_is_a_secret_by_accident() -> None:
    assert not [path for path, _, _ in EVERY_SETTING if is_secret(path.rpartition(".")[2])]


def test_every_default_is_allowed() -> None:
    for path, annotation, default in EVERY_SETTING:
        if default is not msgspec.NODEFAULT:
            value = value_of(annotation)
            raw = tomllib.loads(f"x = {value.write(default)}")["x"]
            assert value.read(raw) == default, path


def test_anything_writes_nested_values() -> None:
    value = {"a": [1, 2.5, True, "x\ny"], "b c": {"d": "é"}}
    assert tomllib.loads(f"x = {Anything().write(value)}")["x"] == value


def test_the_documentation_names_every_setting() -> None:
    text = (Path(__file__).parents[1] / "docs" / "configuration.md").read_text()
    options = [config.EmbeddedOptions, config.DirectoryOptions, config.MemoryOptions]
    names = [path for path, _, _ in EVERY_SETTING] + [name for table in options for name in table.__struct_fields__]
    missing = [
        name for name in names if not {f"`{name}`", f"`{name.rpartition('.')[2]}`"} & set(re.findall(r"`[^`]+`", text))
    ]
    assert not missing
