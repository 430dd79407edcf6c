"""What all tests share: one account of everything that was skipped, for the end of `make test`; how property tests
run; logs that do not go to a stream of an earlier test; and a PostgreSQL."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, settings

from tests.postgres.instance import PostgresInstance, why_not

# A loaded machine is slow, which is no failure.  A build machine tells the same stories each time, so that a change is
# not refused for what it did not do; everywhere else new ones are tried.
settings.register_profile("here", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("build", settings.get_profile("here"), derandomize=True, database=None)
settings.load_profile("build" if os.environ.get("CI") else "here")


class SkipLog:
    """Appends each skipped test and its reason to the file that tests/run-all prints at its end."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            self._write(report.nodeid.split("[")[0], report.longrepr)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self._write(report.nodeid, report.longrepr)

    def _write(self, test: str, why: object) -> None:
        reason = why[2] if isinstance(why, tuple) else why
        with self._path.open("a", encoding="utf-8") as log:
            log.write(f"{test}: {str(reason).removeprefix('Skipped: ')}\n")


def pytest_configure(config: pytest.Config) -> None:
    path = os.environ.get("DITTOFS_TEST_SKIPS")
    # Under xdist the controller hears every report; the workers would write each a second time.
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(SkipLog(Path(path)), "dittofs-skip-log")


@pytest.fixture(autouse=True)
def _logs_as_they_were() -> Iterator[None]:
    """A test that runs `dittofs serve` within itself sends the logs to its captured output, which is closed when it
    ends: the next test whose code logs, perhaps in a thread, would fail."""
    yield
    if structlog.is_configured():
        structlog.reset_defaults()
        for name, module in list(sys.modules.items()):
            logger = getattr(module, "log", None) if name.startswith("dittofs.") else None
            if isinstance(logger, structlog._config.BoundLoggerLazyProxy):
                vars(logger).pop("bind", None)  # what it remembers of the settings of its first use


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresInstance]:
    """A real server, one for each worker of the test run, started when a test first asks for it."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    with PostgresInstance() as instance:
        yield instance


@pytest.fixture
def dsn(postgres: PostgresInstance) -> str:
    """Of a database that only this test has."""
    return postgres.new_database()
