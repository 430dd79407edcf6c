"""What operators did is on record before it is done [OPS-5]."""

import asyncio
import stat
from pathlib import Path

import pytest

from dittofs.control.access import Tokens
from dittofs.control.audit import Audit
from dittofs.control.endpoints import Right


def opened(path: Path) -> Audit:
    audit = Audit(path)
    audit.open()
    return audit


async def act(audit: Audit, *, fails: bool = False) -> None:
    async with audit.acting(actor="me", action="release lock", target="lock 1", reason="why not"):
        assert audit.newest(1)[0].outcome == "begun", "on record before it is done"
        if fails:
            raise ValueError("no such lock")


def test_an_action_is_kept_with_its_end(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    asyncio.run(act(opened(path)))
    (entry,) = opened(path).newest(10)
    assert (entry.action, entry.reason, entry.outcome) == ("release lock", "why not", "done")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_failed_action_says_so(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    with pytest.raises(ValueError, match="no such lock"):
        asyncio.run(act(opened(path), fails=True))
    assert opened(path).newest(10)[0].outcome == "failed: no such lock"


def test_a_crash_in_the_middle_leaves_the_beginning(tmp_path: Path) -> None:
    """A line that was cut is passed over; an action without its end is shown as begun, and no id is used again."""
    path = tmp_path / "audit.jsonl"
    asyncio.run(act(opened(path)))
    asyncio.run(act(opened(path)))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:3]) + lines[3][:20])
    audit = opened(path)
    assert [entry.outcome for entry in audit.newest(10)] == ["begun", "done"]
    asyncio.run(act(audit))
    assert [entry.id for entry in audit.newest(10)] == [3, 2, 1]


def test_tokens_are_made_once_and_told_apart(tmp_path: Path) -> None:
    first, again = Tokens.open(tmp_path), Tokens.open(tmp_path)
    text = (tmp_path / "api-tokens").read_text()
    tokens = dict(line.split() for line in text.splitlines() if not line.startswith("#"))
    for made in (first, again):
        assert made.right_of(tokens["read"]) is Right.READ
        assert made.right_of(tokens["change"]) is Right.CHANGE
        assert made.right_of("") is Right.NONE
        assert made.right_of(tokens["read"] + "x") is Right.NONE
