"""What undertow uses of JAX's private parts: a JAX that moves them is found here first."""

from __future__ import annotations

import subprocess
import sys
from inspect import signature
from pathlib import Path

from jax._src.lib import xla_client
from jaxlib import _jax  # type: ignore[attr-defined]

SOURCE = str(Path(__file__).parents[2] / "src")
METHODS = (
    "blocking_key_value_get_bytes connect key_value_delete key_value_dir_get_bytes key_value_increment "
    "key_value_set_bytes key_value_try_get_bytes"
)


def test_jax_has_the_private_names_that_the_runtime_uses() -> None:
    assert all(hasattr(_jax.DistributedRuntimeClient, name) for name in METHODS.split())
    service, client = _jax.get_distributed_runtime_service.__doc__, _jax.get_distributed_runtime_client.__doc__
    assert "recoverable:" in service and "shutdown_on_destruction:" in client and "init_timeout:" in client
    assert "hostname:" in _jax.make_gloo_tcp_collectives.__doc__
    needed = {"asynchronous", "distributed_client", "node_id", "num_nodes", "collectives", "num_devices"}
    assert needed <= set(signature(xla_client.make_cpu_client).parameters)


def test_a_program_without_a_group_imports_no_jax_and_starts_no_thread() -> None:
    program = f"""if True:
        import sys, threading
        sys.path.insert(0, {SOURCE!r})
        import undertow as torch
        assert "undertow._src.distributed.joining" not in sys.modules
        dist = torch.distributed
        print(dist.is_available(), dist.is_initialized(), dist.is_torchelastic_launched())
        dist.init_process_group(init_method="tcp://127.0.0.1:1", rank=0, world_size=1)  # one rank needs no JAX either
        x = torch.ones(2)
        dist.all_reduce(x)
        print(x, dist.get_world_size(), "jax" in sys.modules)
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "True False False\ntensor([1., 1.]) 1 False\n", done.stderr
