"""What clients saw of a lock service, and whether it kept its promises (pure; in the spirit of Jepsen).

Only what a client knows for certain counts: it holds a lock from the moment it was told so to the moment it began to
give it back, and so on through every restart of the server.  Times are those of one clock.
"""

import bisect
from collections.abc import Sequence
from dataclasses import dataclass, field

NEVER = float("inf")


@dataclass(slots=True)
class Held:
    """One owner held these bytes of a file."""

    owner: str
    file: str
    start: int
    end: int
    is_exclusive: bool
    since: float
    until: float = NEVER
    """It began to give them back, or died."""
    freed: float = NEVER
    """The server had heard of it, as far as the owner's host knows."""
    run: int = 0
    """The run of the server that said so last: that granted them, or their reclaim."""


@dataclass(slots=True)
class Waited:
    """One owner asked for these bytes and was told to wait.  One who gave up is not in the history."""

    owner: str
    file: str
    start: int
    end: int
    is_exclusive: bool
    asked: float
    granted: float = NEVER


@dataclass(slots=True)
class Reclaim:
    """A lock that was held when the server died, asked for again in run `run`."""

    owner: str
    file: str
    start: int
    end: int
    held_in: int
    """The run that said last that they are held."""
    run: int
    answered: float
    is_granted: bool


@dataclass(slots=True)
class Probe:
    """Somebody who had nothing asked whether these bytes are free for him (TEST)."""

    file: str
    start: int
    end: int
    is_exclusive: bool
    sent: float
    answered: float
    is_free: bool


@dataclass(slots=True)
class Run:
    """One run of the server.  `launched` is before anything of it, `opened` when it was first seen out of grace."""

    launched: float
    opened: float = NEVER
    killed: float = NEVER


@dataclass(slots=True)
class History:
    held: list[Held] = field(default_factory=list)
    waited: list[Waited] = field(default_factory=list)
    reclaims: list[Reclaim] = field(default_factory=list)
    probes: list[Probe] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    ended: float = 0.0


Ranged = Held | Waited | Probe


def conflict(a: Ranged, b: Ranged) -> bool:
    """By bytes and kind; whose they are is not asked."""
    return a.file == b.file and a.start < b.end and b.start < a.end and (a.is_exclusive or b.is_exclusive)


def violations(history: History, *, grace_seconds: float, wait_seconds: float) -> list[str]:
    """Everything that must not have happened; empty if all promises were kept."""
    return [
        *held_by_two(history, grace_seconds),
        *lost_by_reclaim(history, grace_seconds),
        *free_though_held(history, grace_seconds),
        *waited_too_long(history, wait_seconds),
    ]


def certain_until(history: History, held: Held, grace_seconds: float) -> float:
    """As long as a client may be sure of a lock: to its end, or until it could have reclaimed it and did not.  On a
    machine that is too slow for so short a grace, a client hears of the restart when its locks are gone already."""
    later = history.runs[held.run + 1 :]
    return min(held.until, later[0].launched + grace_seconds) if later else held.until


def held_by_two(history: History, grace_seconds: float) -> list[str]:
    """No two owners ever held conflicting locks."""
    found = []
    current: list[Held] = []
    for one in sorted((held for held in history.held if held.since < held.until), key=lambda held: held.since):
        current = [other for other in current if certain_until(history, other, grace_seconds) > one.since]
        found += [
            f"{one.owner} and {other.owner} both held bytes {one.start}-{one.end} of {one.file} at {one.since:.3f}"
            for other in current
            if other.owner != one.owner and conflict(one, other)
        ]
        current.append(one)
    return found


def lost_by_reclaim(history: History, grace_seconds: float) -> list[str]:
    """What was held and is asked for in time is given.  Grace begins after the launch, and lasts at least so long if
    something is not reclaimed yet; whoever was answered within that time was refused in grace.  In a run before it,
    grace may have ended if that run lived so long."""
    return [
        f"{one.owner} lost bytes {one.start}-{one.end} of {one.file}: its reclaim was refused in grace"
        for one in history.reclaims
        if not one.is_granted
        and one.answered < history.runs[one.run].launched + grace_seconds
        and all(run.killed < run.launched + grace_seconds for run in history.runs[one.held_in + 1 : one.run])
    ]


def free_though_held(history: History, grace_seconds: float) -> list[str]:
    """What somebody holds all through a probe is not free for another."""
    timeline = Timeline(history)
    return [
        f"bytes {probe.start}-{probe.end} of {probe.file} were free at {probe.answered:.3f}, and {one.owner} held them"
        for probe in history.probes
        if probe.is_free
        for one in timeline.between(probe.sent, probe.answered)
        if conflict(probe, one)
        and one.since < probe.sent
        and probe.answered < certain_until(history, one, grace_seconds)
    ]


def waited_too_long(history: History, wait_seconds: float) -> list[str]:
    """Every waiter is granted soon after its last blocker's release.  While the server is down or in grace, nobody can
    be granted anything: that time does not count."""
    found = []
    timeline = Timeline(history)
    for wait in history.waited:
        end = min(wait.granted, history.ended)
        free_since = max(wait.asked, _released(timeline, wait, end), _served_since(history.runs, end))
        if end - free_since > wait_seconds:
            what = f"bytes {wait.start}-{wait.end} of {wait.file}"
            late = f"{end - free_since:.2f} s after they were free for it"
            found.append(f"{wait.owner} was {'granted' if wait.granted < NEVER else 'still not granted'} {what} {late}")
    return found


class Timeline:
    """Which locks were there in which second: a history has too many to compare each with each."""

    def __init__(self, history: History) -> None:
        self._seconds: dict[int, list[Held]] = {}
        for one in history.held:
            for second in range(int(one.since), int(min(one.freed, history.ended)) + 1):
                self._seconds.setdefault(second, []).append(one)

    def between(self, start: float, end: float) -> list[Held]:
        """Those that the server may have had at some moment of these, each once; perhaps some more."""
        found = {id(one): one for second in range(int(start), int(end) + 1) for one in self._seconds.get(second, ())}
        return [*found.values()]


def _released(timeline: Timeline, wait: Waited, end: float) -> float:
    """When the last lock went that stood in the way; one that is still there is in the way until the end."""
    return max(
        (
            min(one.freed, end)
            for one in timeline.between(wait.asked, end)
            if one.owner != wait.owner and conflict(one, wait) and one.since < end and one.freed > wait.asked
        ),
        default=0.0,
    )


def _served_since(runs: Sequence[Run], moment: float) -> float:
    """Since when the server was there and out of grace at this moment; the moment itself if it was not."""
    index = bisect.bisect_right([run.launched for run in runs], moment) - 1
    if index < 0:
        return moment
    run = runs[index]
    return moment if run.killed < moment else min(run.opened, moment)
