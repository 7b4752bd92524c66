"""A pytest plugin (`-p no_skips`): a run in which a test was skipped has failed."""

from __future__ import annotations

import pytest


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Turns success into failure where the terminal's report counts skipped tests."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter else []
    for report in skipped:
        print(f"\nskipped, where nothing may be: {report.nodeid}: {report.longrepr}")
    if skipped and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
