"""The log of autograd, which has a line for each node that runs, and which logs are shown."""

from __future__ import annotations

import importlib
import logging
import re
import unittest
from collections.abc import Iterator
from typing import Any

import pytest

from tests.oracle.harness import agree
from undertow.testing._internal import logging_utils

LOG = logging.getLogger("torch.autograd.graph")


@pytest.fixture(autouse=True)
def logs_as_before() -> Iterator[None]:
    yield
    for name in ("torch", "undertow"):
        importlib.import_module(f"{name}._logging").set_logs()
    LOG.handlers.clear()


class Lines(logging.Handler):
    def __init__(self, log: Any) -> None:
        super().__init__()
        self.log = log

    def emit(self, record: logging.LogRecord) -> None:
        self.log(record.name, record.levelname, re.sub("0x[0-9a-f]+", "", record.getMessage()))


def test_nodes_are_logged_while_the_log_is_shown() -> None:
    def program(torch: Any, log: Any) -> Any:
        LOG.handlers.clear()
        LOG.addHandler(Lines(log))
        logs = importlib.import_module(f"{torch.__name__}._logging")
        x = torch.ones(2, 3, requires_grad=True)
        (x * 2).sum().backward()
        logs.set_logs(autograd=logging.DEBUG)
        (x.double() * x.double()).mean().backward()
        torch.autograd.grad((x * x.to(torch.complex64)).abs().sum(), x)
        torch.stack([x, x]).unbind()[0].sum().backward()
        logs.set_logs()
        (x * 2).sum().backward()
        LOG.handlers.clear()

    agree(program)


@pytest.mark.parametrize("given", [{"nope": 1}, {"autograd": "x"}, {"modules": {"zz.q": 10}}, {"guards": 3}])
def test_settings_that_are_refused(given: dict[str, Any]) -> None:
    agree(lambda torch: importlib.import_module(f"{torch.__name__}._logging").set_logs(**given), raises=True)


def test_tests_of_logs() -> None:
    torch = importlib.import_module("undertow")

    class TestLogs(logging_utils.LoggingTestCase):
        @logging_utils.make_logging_test(autograd=logging.DEBUG)
        def test_records(self, records: Any) -> None:
            torch.ones(2, requires_grad=True).sin().sum().backward()
            self.assertTrue(self.hasRecord(records, "SinBackward0"))
            self.assertEqual(self.getRecord(records, "SumBackward0").name, LOG.name)

        @logging_utils.make_settings_test("-autograd")
        def test_quiet(self, records: Any) -> None:
            torch.ones(2, requires_grad=True).sin().sum().backward()
            self.assertEqual(records, [])

        def test_streams(self) -> None:
            stream, block = logging_utils.logs_to_string(LOG.name, "autograd")
            with block():
                torch.ones(2, requires_grad=True).sin().sum().backward()
            self.assertIn("Executing: <SinBackward0", stream.getvalue())

    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(TestLogs).run(result)
    assert result.testsRun == 3 and result.wasSuccessful(), result.errors + result.failures
    assert logging_utils.kwargs_to_settings(autograd=logging.DEBUG, guards=True) == "+autograd,guards"
