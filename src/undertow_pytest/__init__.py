"""The pytest plugin of `undertow why`: the options `--why` and `--why-fail`, and the fixture `why_step`.

It is no part of the package undertow because pytest imports it in every run. Undertow is imported only where one of the
three is used.
"""

from __future__ import annotations

from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("undertow")
    group.addoption("--why", action="store_true", help="report lost gradients and silent hooks of each test")
    group.addoption("--why-fail", action="store_true", help="the same, and tests with findings fail")


def pytest_configure(config: pytest.Config) -> None:
    fail = config.getoption("--why-fail")
    if fail or config.getoption("--why"):
        from undertow.why.integrations.pytest_plugin import WhyPlugin

        config.pluginmanager.register(WhyPlugin(fail), "undertow_why")


@pytest.fixture
def why_step() -> Any:
    """Watch one training step: `with why_step(model): ...` fails the test if there are findings."""
    from undertow.why.integrations.pytest_plugin import step

    return step
