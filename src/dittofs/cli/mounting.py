"""How to mount what is served here: the exact commands for this situation [OPS-1, NFS-3].  Pure text.

The Linux client finds MOUNT and NFS through port 111 or by `mountport=` and `port=`, but the lock service only
through port 111: without a port mapper there are no locks over the network, and the command must say `nolock`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from ipaddress import ip_address
from shlex import quote


class PortMapper(Enum):
    """Who answers on port 111 for us."""

    OURS = auto()
    HOST = auto()
    NOBODY = auto()


@dataclass(frozen=True, slots=True)
class Situation:
    """What the text depends on."""

    addresses: tuple[str, ...]
    """Addresses or names that clients can reach, best first; loopback ones are for this machine only."""
    port: int
    port_mapper: PortMapper
    shares: tuple[str, ...]
    why_no_port_mapper: str = ""
    """Such as "port 111: permission denied"."""
    is_macos: bool = False
    """What this machine itself runs; commands for other machines are given for both."""
    interpreter: str = "python3"
    """The Python that runs us, for setcap."""
    is_portmap_off: bool = False
    """True if the configuration asked for no port mapper: then nobody needs advice on how to get one."""
    is_lock_service_taken: bool = False
    """True if the host's port mapper names somebody else's lock service, such as the kernel's, which goes on."""


def mount_text(situation: Situation) -> str:
    """Everything that `dittofs serve` prints about mounting, ready for the terminal."""
    remote = [address for address in situation.addresses if not is_loopback(address)]
    share = situation.shares[0]
    lines = [f"Serving {', '.join(situation.shares)} on port {situation.port}."]
    if remote:
        lines += _from_elsewhere(situation, remote[0], share)
    lines += _from_here(situation, share)
    if situation.port_mapper is PortMapper.NOBODY and not situation.is_portmap_off:
        lines += _how_to_get_port_111(situation)
    return "\n".join(lines) + "\n"


def linux_command(situation: Situation, address: str, share: str, *, is_own_host: bool = False) -> str:
    options = ["vers=3"]
    if situation.port_mapper is PortMapper.NOBODY:
        transport = "tcp6" if ":" in address else "tcp"
        options += [
            f"proto={transport}",
            f"port={situation.port}",
            f"mountport={situation.port}",
            f"mountproto={transport}",
        ]
    if is_own_host or not has_locks(situation):
        options.append("nolock")
    return mount_command(options, address, share, below="/mnt")


def macos_command(situation: Situation, address: str, share: str, *, is_own_host: bool = False) -> str:
    options = ["vers=3", "tcp"]
    if situation.port_mapper is PortMapper.NOBODY:
        options += [f"port={situation.port}", f"mountport={situation.port}"]
    if is_own_host or not has_locks(situation):
        options.append("nolocks")
    # There is no /mnt there, and nothing can be made in /.
    return mount_command(options, address, share, below="/private/mnt")


def mount_command(options: Sequence[str], address: str, share: str, *, below: str) -> str:
    target = quote(below + share.rstrip("/"))
    source = quote(f"[{address}]:{share}" if ":" in address else f"{address}:{share}")
    return f"sudo mkdir -p {target} && sudo mount -t nfs -o {','.join(options)} {source} {target}"


def has_locks(situation: Situation) -> bool:
    """True if a client on another machine can reach our lock service."""
    return situation.port_mapper is not PortMapper.NOBODY and not situation.is_lock_service_taken


def is_loopback(address: str) -> bool:
    try:
        return ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return address == "localhost"


def _from_elsewhere(situation: Situation, address: str, share: str) -> list[str]:
    lines = [
        "From another machine:",
        f"  Linux  {linux_command(situation, address, share)}",
        f"  macOS  {macos_command(situation, address, share)}",
    ]
    if situation.is_lock_service_taken:
        lines.append("  (nolock: rpcbind of this machine names another lock service, probably the kernel's own.)")
    elif not has_locks(situation):
        lines.append("  (nolock: clients find the lock service only through port 111, where nobody answers for us.)")
    return lines


def _from_here(situation: Situation, share: str) -> list[str]:
    loopback = next((address for address in situation.addresses if is_loopback(address)), None)
    address = loopback or situation.addresses[0]
    command = macos_command if situation.is_macos else linux_command
    return [
        "From this machine:",
        f"  {command(situation, address, share, is_own_host=True)}",
        "  (nolock: the kernel's own lock service claims the same RPC program here; locks stay within this machine.)",
    ]


def _how_to_get_port_111(situation: Situation) -> list[str]:
    why = f" ({situation.why_no_port_mapper})" if situation.why_no_port_mapper else ""
    lines = [
        f"Port 111 was not to be had{why}.  With it clients need no options but vers=3, and locks work.",
        "To allow it: run as root; or start rpcbind on this machine, where we then register"
        + ("." if situation.is_macos else "; or one of:"),
    ]
    if not situation.is_macos:
        lines += [
            "  sudo sysctl net.ipv4.ip_unprivileged_port_start=111   (for every program of this machine)",
            f"  sudo setcap cap_net_bind_service=+ep {quote(situation.interpreter)}   (for this Python only)",
        ]
    return lines
