"""The driver of the memory store changes records in place: what a failed procedure did must be gone, from the order of
the keys too."""

import random

import pytest

from dittofs.model.errors import NotFound
from dittofs.stores.tables import View
from dittofs.stores.volatile import VolatileTransactions
from dittofs.testing.transactions_suite import COUNTS, PAIRS, Counter

Changes = list[tuple[tuple[int, int], int | None]]


def change(view: View, changes: Changes, fails: bool) -> None:
    for key, value in changes:
        if value is None:
            view.delete(PAIRS, key)
        else:
            view.put(PAIRS, key, Counter(value))
    view.after("effect")
    if fails:
        raise NotFound("on purpose")


def listed(view: View, start: tuple[int, int], end: tuple[int, int], limit: int) -> list[tuple[tuple[int, int], int]]:
    return [(key, record.value) for key, record in view.scan(PAIRS, start, end, limit)]


@pytest.mark.parametrize("seed", range(20))
def test_scans_agree_with_a_plain_model(seed: int) -> None:
    chance = random.Random(seed)
    driver = VolatileTransactions()
    effects: list[object] = []
    driver.on_effect = lambda effect, hold: effects.append(effect)
    model: dict[tuple[int, int], int] = {}
    kept = 0
    for _ in range(60):
        changes: Changes = [
            ((chance.randrange(3), chance.randrange(8)), chance.choice([None, chance.randrange(100)]))
            for _ in range(chance.randrange(6))
        ]
        if chance.random() < 0.3:
            with pytest.raises(NotFound):
                driver.run(change, changes, True)
        else:
            driver.run(change, changes, False)
            kept += 1
            for key, value in changes:
                if value is None:
                    model.pop(key, None)
                else:
                    model[key] = value
        if chance.random() < 0.5:
            start, end = (chance.randrange(3), chance.randrange(8)), (chance.randrange(4), chance.randrange(8))
            limit = chance.randrange(10)
            expected = sorted(item for item in model.items() if start <= item[0] < end)[:limit]
            assert driver.run(listed, start, end, limit) == expected
    assert len(effects) == kept


def test_a_failed_merge_is_put_back() -> None:
    driver = VolatileTransactions()

    def begin(view: View) -> None:
        view.put(COUNTS, b"a", Counter(1))

    def fail(view: View) -> None:
        view.merge(COUNTS, b"a", lambda record, more: Counter(record.value + more), 5)
        view.merge(COUNTS, b"a", lambda record, more: Counter(record.value + more), 5)
        raise NotFound("on purpose")

    driver.run(begin)
    with pytest.raises(NotFound):
        driver.run(fail)
    found = driver.run(lambda view: view.get(COUNTS, b"a"))
    assert found == Counter(1)
    assert driver.hold is None


def test_a_witness_knows_when_what_was_read_is_another_record() -> None:
    driver = VolatileTransactions()

    def put(view: View, name: bytes, number: int) -> None:
        view.put(COUNTS, name, Counter(number))

    def look(view: View) -> tuple[Counter | None, Counter | None]:
        return view.get(COUNTS, b"there"), view.get(COUNTS, b"not there")

    driver.run(put, b"there", 1)
    found, witness = driver.look(look)
    assert found == (Counter(1), None)
    driver.run(put, b"elsewhere", 1)
    assert witness.is_unchanged()
    driver.run(put, b"not there", 1)
    assert not witness.is_unchanged()
    _, witness = driver.look(look)
    driver.put_all(COUNTS, {b"there": Counter(1)})
    assert not witness.is_unchanged()


def test_what_comes_and_goes_leaves_nothing_behind() -> None:
    """A lock's key is never used again: whatever is kept of it is kept for ever."""
    driver = VolatileTransactions()
    driver.run(lambda view: view.scan(COUNTS, b"", b"\xff", 10))
    for number in range(100):
        driver.put_all(COUNTS, {b"%d" % number: Counter(number)})
        driver.put_all(COUNTS, {b"%d" % number: None})
    rows = driver._tables[COUNTS.number]
    assert not rows.records
    assert not rows._moved
    assert driver.run(lambda view: list(view.scan(COUNTS, b"", b"\xff", 10))) == []
