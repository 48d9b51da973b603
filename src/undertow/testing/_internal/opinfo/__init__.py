"""Facts about operators for tests."""

from undertow.testing._internal.opinfo import core as core
