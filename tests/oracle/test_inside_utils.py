"""Small modules inside PyTorch that packages and tests import: sets, tracebacks, caches, products, processes."""

from __future__ import annotations

import copy
import importlib
import multiprocessing.pool
import multiprocessing.queues
import pickle
import traceback
from typing import Any

import pytest

from tests.oracle.harness import agree


class Pipe:
    """A connection to itself."""

    other = 7

    def send_bytes(self, data: bytes) -> None:
        self.data = bytes(data)

    def recv_bytes(self) -> bytes:
        return self.data


def changed(Ordered: Any) -> Any:
    values = Ordered([1])
    values.update([4, 2], [9])
    values.difference_update([4])
    values.intersection_update([1, 9, 2])
    values.symmetric_difference_update([1, 77])
    values.discard(5)
    values.add(3)
    values |= Ordered([8])
    values -= {8}
    values &= {3, 9, 77}
    return values


def names(torch: Any) -> dict[str, Any]:
    def inside(name: str) -> Any:
        return importlib.import_module(f"{torch.__name__}.{name}")

    class Counting:
        calls = 0

        @inside("utils._functools").cache_method
        def plus(self, x: int) -> int:
            self.calls += 1
            return x + self.calls

    Ordered = inside("utils._ordered_set").OrderedSet
    frame = traceback.FrameSummary("/a/b/c.py", 12, "foo", line="x = 1")
    return {
        "torch": torch, "inside": inside, "O": Ordered, "s": Ordered([3, 1, 2, 1]), "u": Ordered([2, 5]), "copy": copy,
        "pickle": pickle, "changed": changed, "counting": Counting(), "frame": frame, "Pipe": Pipe,
        "A": torch.tensor([[2.0, 1.0], [1.0, 3.0]]), "L": inside("_linalg_utils"), "pool": multiprocessing.pool,
        "queues": multiprocessing.queues, "names": names, "tb": inside("utils._traceback"),
    }  # fmt: skip


ANSWERS = """
repr([s, s | u, s & u, s - u, s ^ u, O(), O([1]) | {2}, {2} | O([1]), pickle.loads(pickle.dumps(s)), copy.deepcopy(s)])
len(s), list(s), 1 in s, list(reversed(s)), s == O([1, 2, 3]), s == {1, 2, 3}, s <= O([3, 1, 2, 9])
repr([s.union(u, [7]), s.intersection(u), s.difference(u, [1]), s.symmetric_difference(u), s.copy(), s.pop(), s])
s.issubset([1, 2, 3, 4]), s.issuperset([1]), repr(changed(O))
O([1]).remove(3)
O().pop()
hash(s)
tb.shorten_filename('/a/b/c.py', base='/a'), tb.format_frame(frame, base='/a'), tb.format_frame(frame, base='/a', line=True)
(lambda: tb.CapturedTraceback.extract())().summary()[-1].name
(lambda: tb.CapturedTraceback.extract(skip=1))().summary()[-1].name
inside('utils._typing_utils').not_none(3), inside('utils._typing_utils').copy_func_params(len)(abs)(-3)
inside('utils._typing_utils').not_none(None)
[(t.force(), t.force()) for t in [inside('utils._thunk').Thunk(lambda: 5)]]
counting.plus(1), counting.plus(1), counting.plus(2), counting.calls
inside('utils._exposed_in').exposed_in('zz')(changed).__module__, setattr(changed, '__module__', __name__)
inside('utils._import_utils')._check_module_exists('json'), inside('utils._import_utils')._check_module_exists('nope_x')
[(f(), f(), inside('utils._stats').simple_call_counter['<lambda>']) for f in [inside('utils._stats').count(lambda: 3)]]
inside('utils.backcompat').broadcast_warning.enabled
L.get_floating_dtype(A.int()), L.get_floating_dtype(A.double()), L.matmul(None, A), L.matmul(A, A), L.is_sparse(A)
L.bform(A, None, A), L.bform(A, A, A), L.qform(A, A), L.basis(A).abs(), L.symeig(A)[0], L.symeig(A, True)[0]
L.matrix_rank(A)
L.is_sparse(3)
inside('_lowrank').get_approximate_basis(A, 2).abs(), inside('_lowrank')._svd_lowrank(A, 2)[1]
torch._foreach_mul_([A.clone()], scalar=2.0), torch._foreach_mul([A], scalars=[2.0])
torch._foreach_add([A], other=[A], alpha=2)
torch._foreach_pow([A.abs()], exponent=2.0), torch._foreach_maximum([A], scalar=1), torch._foreach_sub([A], scalar=1.0)
torch._foreach_mul([A], weight=2)
torch._foreach_mul([A])
isinstance(torch.nn.ConvTranspose1d(1, 1, 1), inside('nn.modules.conv')._ConvTransposeMixin)
inside('nn.modules.conv')._ConvTransposeMixin.__base__.__name__
inside('nn.modules.container')._addindent('a\\nb', 2), inside('distributions.gamma')._standard_gamma(A.abs() + 1)
inside('_environment').is_fbcode(), inside('_environment').is_prod()
inside('_compile')._disable_dynamo(lambda x: x + 1)(2)
torch._disable_dynamo(lambda x: x + 1)(2), torch._disable_dynamo(recursive=False)(lambda x: x + 1)(3)
inside('_sources').get_source_lines_and_file(changed)[0][:2], inside('_sources').parse_def(changed).ast.body[0].name
inside('_sources').normalize_source_lines(['  def g():\\n', '    pass\\n', 'z'])
inside('_sources').get_source_lines_and_file(len)
issubclass(inside('multiprocessing.pool').Pool, pool.Pool), issubclass(inside('multiprocessing.queue').Queue, queues.Queue)
[(w.send([A]), w.recv(), w.other) for w in [inside('multiprocessing.queue').ConnectionWrapper(Pipe())]]
callable(torch.multiprocessing.spawn), issubclass(torch.multiprocessing.SpawnContext, torch.multiprocessing.ProcessContext)
inside('utils._dtype_abbrs').dtype_abbrs[torch.bfloat16], len(inside('utils._dtype_abbrs').dtype_abbrs)
""".strip().splitlines()


@pytest.mark.parametrize("text", ANSWERS)
def test_answers(text: str) -> None:
    agree(lambda torch: eval(text, {**names(torch), "__name__": __name__}))


PATHS: tuple[Any, ...] = (
    None,
    [0, 1, 0, 1],
    [1, 2, 0, 1],
    (2, 0, 1, 0),
    [],
    [0, 1, 1, 2],
    [1, 1, 0, 1],
    [0, -1, 0, 1],
    "x",
)


@pytest.mark.parametrize("path", PATHS)
def test_einsum_along_a_path(path: Any) -> None:
    def program(torch: Any) -> Any:
        terms = [torch.rand(size, requires_grad=True) for size in ((2, 3), (3, 4), (2, 1, 4))]
        along = importlib.import_module(f"{torch.__name__}._VF").einsum
        summed = along("ab,bc,aec->ea", terms, path=path)
        mapped = torch.vmap(lambda one: along("b,bc,ec->e", (one, terms[1], terms[2][0]), path=path))(terms[0])
        return summed, mapped, torch.autograd.grad(summed.sum() + mapped.sum(), terms)

    agree(program)


@pytest.mark.parametrize("values", [
    [1.0, 2.0], [1.5, 20.25], [1e-6, 1.0], [1, 200], [True], [float("nan"), 1.0], [float("inf")], [0.0], 3.14159,
])  # fmt: skip
def test_numbers_written_like_elements(values: Any) -> None:
    def program(torch: Any) -> Any:
        written = torch._tensor_str._Formatter(torch.tensor(values))
        texts = [written.format(value) for value in (1.0, 3.14159, float("nan"), 1e7)]
        return (
            texts,
            written.width(),
            written.max_width,
            written.int_mode,
            bool(written.sci_mode),
            written.floating_dtype,
        )

    agree(program)


def test_fetchers() -> None:
    def program(torch: Any) -> Any:
        fetch = importlib.import_module(f"{torch.__name__}.utils.data._utils.fetch")
        data = [1, 2, 3, 4, 5]
        mapped = fetch._MapDatasetFetcher(data, True, list, False)
        stream = fetch._IterableDatasetFetcher(data, True, list, False)
        short = fetch._IterableDatasetFetcher(data, True, list, True)
        batches = [mapped.fetch([0, 2]), stream.fetch([0] * 3), stream.fetch([0] * 3), short.fetch([0] * 3)]
        ends = []
        for each in (stream, short):
            try:
                each.fetch([0] * 3)
            except StopIteration:
                ends.append(each.ended)
        return batches, ends, fetch._MapDatasetFetcher(data, False, abs, False).fetch(3), mapped.drop_last

    agree(program)


def test_references_to_memory() -> None:
    def program(torch: Any) -> Any:
        Ref = importlib.import_module(f"{torch.__name__}.multiprocessing.reductions").StorageWeakRef
        tensor = torch.ones(3)
        one, two, other = (Ref(each.untyped_storage()) for each in (tensor, tensor[1:], torch.zeros(3)))
        before = one == two, one.expired(), hash(one) == hash(two), one == other
        del tensor
        again = torch.ones(3)  # which may get the memory
        return before, one.expired(), one == Ref(again.untyped_storage())

    agree(program)
