"""`torch._logging`: which logs are enabled. `set_logs(autograd=logging.DEBUG)` logs every node that runs."""

from undertow._logging._internal import LazyString as LazyString
from undertow._logging._internal import _init_logs as _init_logs
from undertow._logging._internal import dtrace_structured as dtrace_structured
from undertow._logging._internal import getArtifactLogger as getArtifactLogger
from undertow._logging._internal import hide_warnings as hide_warnings
from undertow._logging._internal import set_logs as set_logs
from undertow._logging._internal import trace_structured as trace_structured
from undertow._logging._internal import warning_once as warning_once
