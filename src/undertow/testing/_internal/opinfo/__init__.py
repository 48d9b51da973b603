"""What a test needs to know about an operator: `OpInfo`, and samples of its inputs."""

from undertow.testing._internal.opinfo import core as core
