"""`pytest --why`: watch every test, and report what is wrong with its gradients and hooks. See `undertow_pytest`."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from undertow.why.integrations.stretch import Stretch
from undertow.why.session import watch
from undertow.why.show import Findings

SECTION = "undertow why"
FIXTURE = "why_step"


class step(watch):
    """Watch one training step in a test, and fail the test if there are findings: `with why_step(model): ...`.

    check: if False, nothing fails; the test itself looks at `findings()`. notes: whether notes fail the test, too.
    """

    def __init__(self, *subjects: Any, check: bool = True, notes: bool = False, engine: Any = None) -> None:
        super().__init__(*subjects, engine=engine)
        self._check, self._notes = check, notes

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        super().__exit__(kind, error, trace)
        if self._check and error is None:
            self.check(notes=self._notes)


class WhyPlugin:
    """Watches each test from its fixtures to its end. A test that uses `why_step` watches itself."""

    def __init__(self, fail: bool) -> None:
        self.fail = fail
        self.stretch: Stretch | None = None

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, Any, Any]:
        if FIXTURE not in getattr(item, "fixturenames", ()):
            self.stretch = Stretch()
            self.stretch.begin()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: Any) -> Generator[None, Any, Any]:
        report = yield
        if call.when == "call" or report.outcome != "passed":  # after an error or a skip, there is no call
            findings = self._end(item, None if call.excinfo is None else call.excinfo.value)
            if findings:
                self._tell(report, findings)
        return report

    def _end(self, item: pytest.Item, error: BaseException | None) -> Findings | None:
        stretch, self.stretch = self.stretch, None
        if stretch is None:
            return None
        names = {**vars(getattr(item, "module", None) or item), **getattr(item, "funcargs", {})}
        return stretch.end(names, error)

    def _tell(self, report: Any, findings: Findings) -> None:
        report.sections.append((SECTION, str(findings)))
        if self.fail and report.outcome == "passed" and any(not finding.is_note for finding in findings):
            report.outcome, report.longrepr = "failed", f"undertow why: {findings.title()}"

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        found = [
            (report.nodeid, text)
            for reports in terminalreporter.stats.values()
            for report in reports
            for name, text in getattr(report, "sections", ())
            if name == SECTION
        ]
        terminalreporter.section(SECTION)
        for test, text in found:
            terminalreporter.line(test, bold=True)
            terminalreporter.line(text)
            terminalreporter.line("")
        tests = "1 test" if len(found) == 1 else f"{len(found)} tests"
        terminalreporter.line(f"{tests} with findings or notes" if found else "no findings")
