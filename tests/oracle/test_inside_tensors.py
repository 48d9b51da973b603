"""Names inside PyTorch's tensors, files, schedulers and checkpoints that packages and tests import."""

from __future__ import annotations

import importlib
import io
import pickle
from typing import Any

import pytest

from tests.oracle.harness import agree


def names(torch: Any) -> dict[str, Any]:
    def inside(name: str) -> Any:
        return importlib.import_module(f"{torch.__name__}.{name}")

    class Sub(torch.Tensor):
        pass

    file = io.BytesIO()
    torch.save({"a": 1}, file)
    file.seek(0)
    optimizer = torch.optim.SGD([torch.ones(1)], lr=0.1)
    return {
        "torch": torch, "Sub": Sub, "x": torch.ones(2), "file": file, "io": io, "pickle": pickle, "optimizer": optimizer,
        "scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 2), "c": inside("utils.checkpoint"),
        "lr": inside("optim.lr_scheduler"), "z": inside("serialization"), "t": inside("_tensor"), "st": inside("storage"),
        "u": inside("_utils"), "o": inside("overrides"),
    }  # fmt: skip


ANSWERS = """
c._infer_device_type(x), c._infer_device_type(3), c._get_autocast_kwargs('cpu'), c._get_autocast_kwargs()
c._default_meta_extractor(x), list(c._allowed_determinism_checks_to_fns), c._DEFAULT_DETERMINISM_MODE
str(c._policy_from_bool(True)), str(c._policy_from_bool(False)), c._StopRecomputationError.__mro__[1]
c._is_compiling(None, (), {}), c._detach_helper(torch.ones(1, requires_grad=True)), c._detach_helper(3)
c._VersionWrapper(x).get_val(False)
[(x.add_(1), w.get_val(True)) for w in [c._VersionWrapper(x)]]
[(x.add_(1), w.get_val(False)) for w in [c._VersionWrapper(x)]]
[(e.__enter__() is e, scheduler._get_lr_called_within_step) for e in [lr._enable_get_lr_call(scheduler)]]
[(m.__enter__(), scheduler._is_initial, m.__exit__(None, None, None)) for m in [lr._initial_mode(scheduler)]]
lr._format_param('m', optimizer, 3), lr._format_param('m', optimizer, [1]), lr._param_groups_val_list(optimizer, 'lr')
lr._format_param('m', optimizer, [1, 2])
[lr._update_param_group_val(g, 'lr', 0.5) or g for g in [{'lr': torch.tensor(0.1)}, {'lr': 0.1}]]
lr._warn_get_lr_called_within_step(scheduler)
z._is_zipfile(file), file.tell(), z._is_zipfile(io.BytesIO(b'abcdefg')), z._is_path('a'), z._is_path(3)
z._maybe_decode_ascii(b'ab'), z._maybe_decode_ascii('ab'), z._is_compressed_file(file), z._should_read_directly(file)
z._check_seekable(file)
z._check_seekable(3)
z._check_save_filelike(3)
z._check_save_filelike(file)
z._get_restore_location('cpu')(x.untyped_storage(), 'cpu').nbytes()
z._get_restore_location({'cuda:0': 'cpu'})(x.untyped_storage(), 'cuda:0').nbytes()
[(f.__enter__() is file, f.__exit__(None, None, None), file.closed) for f in [z._open_file_like(file, 'rb')]]
z.STORAGE_KEY_SEPARATOR, z.LONG_SIZE, z.INT_SIZE, z.SHORT_SIZE, z.IS_WINDOWS, z.MAP_PRIVATE, z.MAP_SHARED
z._cpu_tag(x.untyped_storage()), z._default_to_weights_only(None), z._is_meta_location('meta')
len(o.get_default_nowrap_functions()), torch.Tensor.grad.__get__ in o.get_default_nowrap_functions()
torch.Tensor.add in o._get_tensor_methods(), torch.add in o._get_tensor_methods()
type(t._convert(x, Sub)).__name__, [type(each).__name__ for each in t._convert((x, 3), Sub)]
type(t._convert(x, torch.Tensor)).__name__
[(type(s).__name__, s.k) for s in [t._rebuild_from_type_v2(torch.ones, Sub, ((1,),), {'k': 2})]]
t._rebuild_from_type(torch.ones, Sub, ((1,),), {'k': 2}).k
issubclass(torch.FloatStorage, st._LegacyStorage), st._isint(3), issubclass(torch.UntypedStorage, st._StorageBase)
st._get_dtype_from_pickle_storage_type('FloatStorage'), st._dtype_to_storage_type_map()[torch.float32]
st._get_dtype_from_pickle_storage_type('NoStorage')
u.IMPORT_MAPPING['Queue'], u._get_async_or_non_blocking('cuda', True, {}), u.get_tensor_metadata(x)
u._get_async_or_non_blocking('cuda', False, {'async': True})
u._get_async_or_non_blocking('cuda', False, {'other': True})
u.get_tensor_metadata((x + 1j).conj()), u._rebuild_meta_tensor_no_storage(torch.float32, (2,), (1,), False).shape
u._rebuild_device_tensor_from_numpy(x.numpy(), torch.float64, 'cpu', True)
""".strip().splitlines()


@pytest.mark.parametrize("text", ANSWERS)
def test_answers(text: str) -> None:
    agree(lambda torch: eval(text, names(torch)))
