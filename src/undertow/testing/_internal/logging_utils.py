"""Helpers for tests of logs."""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import os
import unittest.mock
from collections.abc import Callable, Iterator
from typing import Any

from undertow import _logging
from undertow._logging import _internal
from undertow.testing._internal.common_utils import TestCase


@contextlib.contextmanager
def preserve_log_state() -> Iterator[None]:
    """Restore the log settings after the block."""
    before = _internal._get_log_state()
    _internal._set_log_state(_internal.LogState())
    try:
        yield
    finally:
        _internal._set_log_state(before)
        _internal._init_logs()


def log_api(**kwargs: Any) -> contextlib.ExitStack:
    """Enable logs by the arguments of `set_logs`, until the result is closed."""
    stack = contextlib.ExitStack()
    stack.enter_context(preserve_log_state())
    _logging.set_logs(**kwargs)
    return stack


def log_settings(settings: str) -> contextlib.ExitStack:
    """Enable logs by a text such as `+autograd,-dynamo`, until the result is closed."""
    signs = {"+": logging.DEBUG, "-": logging.ERROR}
    chosen: dict[str, Any] = {}
    for word in filter(None, settings.split(",")):
        name = word.lstrip("+-")
        chosen[name] = True if name in _internal._ARTIFACTS else signs.get(word[0], logging.INFO)
    return log_api(**chosen)


def kwargs_to_settings(**kwargs: Any) -> str:
    """Return the arguments of `set_logs` as such a text."""
    signs = {logging.DEBUG: "+", logging.ERROR: "-"}
    return ",".join(name if isinstance(value, bool) else signs.get(value, "") + name for name, value in kwargs.items())


def _with_logs(open_logs: Callable[[], contextlib.ExitStack]) -> Callable[[Any], Any]:
    """Return a decorator for a test that takes the log records."""

    def decorate(test: Any) -> Any:
        @functools.wraps(test)
        def run(self: Any) -> None:
            records: list[logging.LogRecord] = []
            with open_logs(), self._handler_watcher(records):
                test(self, records)

        return run

    return decorate


def make_logging_test(**kwargs: Any) -> Callable[[Any], Any]:
    """Return a decorator for a test that takes the records of these logs."""
    return _with_logs(lambda: log_api(**kwargs))


def make_settings_test(settings: str) -> Callable[[Any], Any]:
    """Return a decorator for a test that takes the records of the logs in a text of settings."""
    return _with_logs(lambda: log_settings(settings))


class _Records(logging.Handler):
    def __init__(self, records: list[logging.LogRecord]) -> None:
        super().__init__()
        self.records = records

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


class LoggingTestCase(TestCase):
    """A test of logs, without settings from the environment."""

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.enterClassContext(unittest.mock.patch.dict(os.environ, {"TORCH_LOGS": ""}))
        cls.enterClassContext(preserve_log_state())

    def hasRecord(self, records: list[logging.LogRecord], m: str) -> bool:
        """Whether a record contains this text."""
        return any(m in record.getMessage() for record in records)

    def getRecord(self, records: list[logging.LogRecord], m: str) -> logging.LogRecord:
        """Return the only record that contains this text."""
        found = [record for record in records if m in record.getMessage()]
        self.assertEqual(len(found), 1, str([record.getMessage() for record in records]))
        return found[0]

    @contextlib.contextmanager
    def _handler_watcher(self, record_list: list[logging.LogRecord]) -> Iterator[None]:
        """Collect the log records of the block."""
        handler = _Records(record_list)
        logs = {logging.getLogger("torch"), *(log for log in _internal.get_loggers() if not log.propagate)}
        for log in logs:
            log.addHandler(handler)
        try:
            yield
        finally:
            for log in logs:
                log.removeHandler(handler)


def logs_to_string(module: str, log_option: str) -> tuple[io.StringIO, Callable[[], Any]]:
    """Return a stream, and a context manager that writes a module's log to it."""
    stream = io.StringIO()

    @contextlib.contextmanager
    def block() -> Iterator[None]:
        artifact = log_option in _internal._ARTIFACTS
        log = _logging.getArtifactLogger(module, log_option) if artifact else logging.getLogger(module)
        handler = logging.StreamHandler(stream)
        with log_settings(log_option if artifact else f"+{log_option}"):
            log.addHandler(handler)
            try:
                yield
            finally:
                log.removeHandler(handler)

    return stream, block


def multiple_logs_to_string(module: str, *log_options: str) -> tuple[list[io.StringIO], Callable[[], Any]]:
    """Return a stream for each of several logs, and a context manager that writes the logs to them."""
    pairs = [logs_to_string(module, option) for option in log_options]

    @contextlib.contextmanager
    def block() -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for _, each in pairs:
                stack.enter_context(each())
            yield

    return [stream for stream, _ in pairs], block
