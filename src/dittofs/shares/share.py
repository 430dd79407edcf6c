"""A share: one exported tree, and who may use it as whom."""

from dittofs.config import ShareSettings
from dittofs.files.records import ShareRecord
from dittofs.files.volume import Volume
from dittofs.model.errors import AccessDenied, ReadOnlyShare
from dittofs.model.identity import Identity
from dittofs.model.ids import ShareName
from dittofs.shares.networks import Networks
from dittofs.shares.squash import Squash, squashed

FLAVORS = {"none": 0, "sys": 1}
"""The flavours of the settings by their numbers in RFC 5531 8.2."""


class FlavorRefused(AccessDenied):
    """The share asks for a stronger flavour of authentication than the call has."""


class Share:
    """What is exported under one name.  Nothing here changes while the share is served."""

    __slots__ = (
        "anonymous",
        "flavors",
        "fsid",
        "is_read_only",
        "name",
        "networks",
        "record",
        "settings",
        "squash",
        "volume",
    )

    def __init__(self, settings: ShareSettings, record: ShareRecord, volume: Volume):
        self.name = ShareName(settings.name)
        self.settings = settings
        self.record = record
        self.fsid = record.fsid
        self.volume = volume
        self.networks = Networks(settings.clients)
        self.flavors = tuple(FLAVORS[name] for name in settings.security)
        self.squash = Squash(settings.squash)
        self.anonymous = Identity(settings.anonymous_uid, settings.anonymous_gid)
        self.is_read_only = settings.read_only

    def admit(self, *, address: str, flavor: int, identity: Identity | None) -> Identity:
        """Whom the file rules see when this client calls.  Raises AccessDenied, FlavorRefused [NFS-4]."""
        self.check_address(address)
        if flavor not in self.flavors:
            raise FlavorRefused(f"flavour {flavor} on {self.name}, allowed are {self.flavors}")
        return squashed(self.squash, identity, self.anonymous)

    def check_address(self, address: str) -> None:
        if not self.networks.allows(address):
            raise AccessDenied(f"{address} is in none of the networks of {self.name}")

    def check_writable(self) -> None:
        if self.is_read_only:
            raise ReadOnlyShare(f"{self.name} is exported read-only")
