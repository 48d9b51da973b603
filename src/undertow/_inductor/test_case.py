"""Test cases of compiled programs, under this name too."""

from undertow._dynamo.test_case import TestCase as TestCase
from undertow._dynamo.test_case import run_tests as run_tests
