"""One share's data: where it is kept, and what is known about it while it is served."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from msgspec.structs import replace

from dittofs.files.gates import Gates
from dittofs.files.handles import HandleCodec
from dittofs.files.records import INODES, MAX_FILE_SIZE, UNSTABLE, ShareRecord
from dittofs.files.tree import Tree, tree_of
from dittofs.files.values import Removed
from dittofs.model.errors import FileError
from dittofs.model.ids import ContentId, FileId, ShareId
from dittofs.stores.api import ContentStore, Usage
from dittofs.stores.tables import View

if TYPE_CHECKING:
    from dittofs.files.snapshot import Snapshot

T = TypeVar("T")

TAILS_REMEMBERED = 65_536


class Hold(Protocol):
    """What an answer has to wait for."""

    def when_settled(self, settled: Callable[[FileError | None], None], /) -> None: ...


class Witness(Protocol):
    """Knows what a result was made from."""

    def is_unchanged(self) -> bool: ...


class Transactions(Protocol):
    """The driver of a metadata store, as the rules need it."""

    @property
    def is_shared(self) -> bool:
        """Whether other servers may change the same records."""

    @property
    def hold(self) -> Hold | None:
        """After `run`, also if it raised: what the answer must wait for."""

    def run(self, function: Callable[..., T], /, *args: Any, is_relaxed: bool = False) -> T:
        """Run `function(view, *args)` at once."""

    def look(self, function: Callable[..., T], /, *args: Any, is_relaxed: bool = False) -> tuple[T, Witness | None]:
        """Run one that only looks; also who knows later on whether its result is still true, if somebody does."""

    async def perform(self, function: Callable[..., T], /, *args: Any, is_relaxed: bool = False) -> T:
        """Run it, and wait until what it saw and wrote is durable; if `is_relaxed`, do not wait."""


class Volume:
    """The data of one share.  Several may be kept in one metadata store, and in one content store."""

    __slots__ = (
        "_content_ids",
        "_max_file_size",
        "codec",
        "content",
        "dirty",
        "gates",
        "id",
        "is_frozen",
        "is_relaxed",
        "on_removed",
        "root",
        "snapshot",
        "tails",
        "transactions",
        "tree",
        "write_verifier",
    )

    def __init__(
        self,
        record: ShareRecord,
        *,
        transactions: Transactions,
        content: ContentStore,
        is_relaxed: bool = False,
        tree: Tree | None = None,
    ):
        self.id = ShareId(record.id)
        self.root = record.root
        self.transactions = transactions
        self.content = content
        self.is_relaxed = is_relaxed
        self.tree = tree or tree_of(self.id, self.root)
        self.codec = HandleCodec(self.id, record.handle_key)
        self.gates = Gates()
        self.dirty: dict[FileId, None] = {}
        """Files with writes that are not durable yet, the oldest first: those with a shadow."""
        self.tails: set[FileId] = set()
        """Files whose content is known to end where the file does; see `io`."""
        self.is_frozen = False
        """Whoever wants to change something is asked to try later."""
        self.snapshot: Snapshot | None = None
        """What has to see old content before it is changed."""
        self.on_removed: Callable[[], None] = lambda: None
        self._max_file_size: int | None = None
        self.write_verifier = b""
        self.change_write_verifier()

    def content_of(self, file: FileId) -> ContentId:
        return ContentId(self.id, file)

    def change_write_verifier(self) -> None:
        """From now on clients know that writes they did not commit may be lost (RFC 1813 3.3.7)."""
        self.write_verifier = os.urandom(8)

    @property
    def max_file_size(self) -> int:
        """What FSINFO promises and every change of a size keeps to."""
        if self._max_file_size is None:
            self._max_file_size = min(MAX_FILE_SIZE, self.content.usage().largest_file)
        return self._max_file_size

    def usage(self) -> Usage:
        """Room in all, for FSSTAT."""
        return self.content.usage()

    def removed(self, effect: Removed) -> None:
        """A file's last link went, durably or soon: its content is to be reclaimed."""
        assert effect.share == self.id, "an effect goes to the share it came from"
        self.on_removed()

    def know_tail(self, file: FileId) -> None:
        if len(self.tails) >= TAILS_REMEMBERED:
            self.tails.clear()
        self.tails.add(file)

    def reconcile(self) -> None:
        """After the metadata store lost transactions: shadows know of some that never happened.  What they say about
        content stays true; the rest is taken from the store again."""
        self.change_write_verifier()
        for file in list(self.dirty):
            self.transactions.run(_reconcile, file, is_relaxed=True)


def _reconcile(view: View, file: FileId) -> None:
    stable, shadow = view.get(INODES, file), view.get(UNSTABLE, file)
    if shadow is None:
        return
    if stable is None:
        view.delete(UNSTABLE, file)
        return
    ctime = max(stable.ctime, shadow.ctime) + 1
    view.put(UNSTABLE, file, replace(stable, size=shadow.size, used=shadow.used, mtime=shadow.mtime, ctime=ctime))
