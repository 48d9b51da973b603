"""A step that compiles itself when it is called, and again when what it depends on has changed."""

from __future__ import annotations

import contextlib
import copy
import functools
import itertools
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from undertow._dynamo import config
from undertow._src.arrays.device.array import DeviceArray
from undertow._src.arrays.device.memory import Compiling, Deferred, TraceAborted
from undertow._src.base import tracer
from undertow._src.base.modes import ThreadModes, local, slow_path
from undertow._src.base.sites import warn
from undertow._src.compile.cache import keep_on_disk
from undertow._src.compile.callbacks.call_contexts import uncompiled_threads
from undertow._src.compile.callbacks.replay import Interrupted
from undertow._src.compile.dynamic import Dynamic, PaddedArguments, PaddedCall
from undertow._src.compile.effects import Coverage
from undertow._src.compile.effects.objects import instance_dict
from undertow._src.compile.errors import CompileError, CompileWarning, RunsAsWritten, line_of
from undertow._src.compile.guards.places import Numbers
from undertow._src.compile.guards.settings import settings_now
from undertow._src.compile.guards.signatures import attributes_of, signature
from undertow._src.compile.lowering.traced_sizes import TooShort
from undertow._src.compile.plan import Plan, Retrace
from undertow._src.compile.program import Program, make_program
from undertow._src.compile.recompile_reasons import argument_names, call_signature, reason_for
from undertow._src.compile.splitting.effect_splitting import EffectSplitter
from undertow._src.compile.tracing.arguments import hooks_on_node
from undertow._src.compile.tracing.counters import in_places
from undertow._src.compile.tracing.data_dependent_branches import Answer, Hints, Mispredicted
from undertow._src.compile.tracing.new_objects import FewCollections
from undertow._src.compile.tracing.records import ChangedRecord, Kinds
from undertow._src.compile.tracing.sparse_parts import apart, parts_of_sparse
from undertow._src.compile.tracing.step_inputs import Call
from undertow._src.compile.tracing.symbolic_scalars import ScalarBecameConstant
from undertow._src.tensor.core import TensorCore
from undertow._src.types.devices import cpu
from undertow._src.types.sizes import Size
from undertow._tensor import Tensor
from undertow.autograd.profiler import OneEvent, is_watching

MANY = 8  # recompiles of one step after which a warning says why
MOST = 16  # programs for arguments with the same signature
MOST_TRACES = 200  # traces for one program; each uses what the last has found out
KEPT = 24  # programs of one step in all: small ones take 5 MB each
_CAUSES = 256  # the number of reasons for recompiles that are kept

everything: weakref.WeakSet[Compiled] = weakref.WeakSet()
_turns = itertools.count()
_clock = itertools.count()  # counts calls, as a time
_one_at_a_time = threading.RLock()  # among all steps: a step that runs during a trace would be traced, too


@contextlib.contextmanager
def _telling(name: str) -> Iterator[None]:
    """Tell ranks that wait for this one that it compiles a step."""
    tracer.compiling = name
    try:
        yield
    finally:
        tracer.compiling = ""


class Compiled:
    """A function whose calls run as one program."""

    compiles_first_step = False  # on the CPU, although no later call is like it; see `Program.runs_as_written`

    def __init__(
        self, function: Callable[..., Any], fallback: str | None = None, dynamic: Mapping[Any, Any] | None = None
    ) -> None:
        if fallback not in (None, "eager"):
            raise ValueError(
                f"undertow.compile: fallback is {fallback!r}, but must be None (a refused step raises a CompileError) or "
                '"eager" (it runs eagerly)'
            )
        functools.update_wrapper(self, function)
        self.function = self._torchdynamo_orig_callable = function
        self.name = getattr(function, "__qualname__", type(function).__qualname__)
        self.programs: dict[Any, list[Program]] = {}
        self._numbers: dict[Any, Numbers] = {}  # the plain numbers among the arguments, by the same keys
        self.causes: list[str] = []
        self._recompiles = 0
        self.evicted = 0  # the number of programs that were evicted
        self.fallback, self.asked_dynamic = fallback, dynamic
        self.dynamic = None if dynamic is None else Dynamic(function, dynamic)  # sizes of arguments that vary
        self.as_written: list[str] = []  # why single calls ran without a program
        self.eager: dict[Any, str] = {}  # keys of calls that run without a program, and why
        self._signatures: list[dict[str, str]] = []  # of the last calls that were compiled
        self.refused = ""  # why the last call was not compiled
        self._was_called = False
        self._kinds = Kinds()
        self.turn = next(_turns)  # its number among all compiled functions
        self.coverage: Coverage | None = None  # the code that ran in its traces, if there is too much to read
        everything.add(self)
        keep_on_disk()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program whose guards hold, or compile one. A call in which the step raises runs eagerly."""
        if tracer.current is not None and tracer.current.is_here():
            return self.function(*args, **kwargs)  # part of a larger step that is being compiled
        if uncompiled_threads and threading.get_ident() in uncompiled_threads:
            return self.function(*args, **kwargs)  # called by a hook that a program waits for
        if slow_path.as_written or slow_path.anomaly or config.disable or slow_path.stance == "force_eager":
            return self.function(*args, **kwargs)
        if Deferred.calls:
            Deferred.run()  # a program may overwrite what it reads, or keep the device busy until a hook has run
        if slow_path.count and is_watching():
            with OneEvent(self.name):
                return self(*args, **kwargs)
        arguments = PaddedArguments()
        numbers: list[Any] = []
        padded: PaddedCall | None = None
        modes = local.modes
        key: list[Any] = settings_now(modes)
        if slow_path.count or modes.saved_hooks or modes.dispatch_modes:
            try:
                key += _rare_modes(modes)
            except CompileError as error:
                self._fall_back("modes", error)
                return self.function(*args, **kwargs)
        if args or kwargs:
            try:
                if self.dynamic is not None and (padded := self.dynamic.padded(args, kwargs)) is not None:
                    key.append(padded.key)
                    _describe((padded.args, padded.kwargs), key, arguments, numbers, self._kinds, [])
                    padded.fill(arguments)
                else:
                    _describe((args, kwargs), key, arguments, numbers, self._kinds, [])
            except CompileError as error:
                self._fall_back("arguments", error)
                return self.function(*args, **kwargs)
            except (RecursionError, TypeError) as error:
                words = f"a list or dict among the arguments of {self.name} contains itself, or is nested too deeply"
                if isinstance(error, TypeError):  # a metaclass with an `__eq__` of its own
                    words = f"the class of an argument of {self.name} can't be hashed ({error})"
                refusal = CompileError(f"undertow.compile: {words}. Use it by a global or closure name instead.")
                refusal.__suppress_context__ = True
                self._fall_back("arguments", refusal)
                return self.function(*args, **kwargs)
        with _one_at_a_time:
            programs = self.programs.setdefault(tuple(key), [])
            if numbers:
                given = self._numbers.setdefault(tuple(key), Numbers())
                given[:], numbers = numbers, given
            answers: tuple[Answer, ...] = ()  # the outcomes of the step's first branches on values, in this call
            hints: Hints = {}
            failure, interrupted = None, None
            compiles = not (self.eager and tuple(key) in self.eager)
            for place, program in enumerate(programs):
                if program.decisions.answers and program.decisions.answers[: len(answers)] != [*answers]:
                    continue
                if program.guards_hold(arguments):
                    program.used = next(_clock)
                    if place:  # the next call may be like this one
                        programs.insert(0, programs.pop(place))
                    if not program.admits(arguments):
                        compiles = False
                        break
                    try:
                        return program.run_from(answers, arguments)
                    except Mispredicted as other:
                        answers, hints = other.answers, other.hints
                    except Interrupted:
                        interrupted, compiles = program, False
                        break
            compiles = compiles and (slow_path.stance == "default" or self._may_compile())
            if compiles and self._kinds.meet((args, kwargs)):  # which changes the key
                return self(*args, **kwargs)
            while compiles:
                try:
                    with _telling(self.name), FewCollections():
                        program = self._compile(
                            programs, *_shown(padded, args, kwargs), arguments, numbers, (answers, hints), padded
                        )
                except TooShort as short:
                    assert self.dynamic is not None and padded is not None
                    self.dynamic.note_least(padded, short.least)
                    return self(*args, **kwargs)
                except RunsAsWritten as reason:
                    self.as_written.append(str(reason))
                    del self.as_written[:-_CAUSES]
                    break
                except (ChangedRecord, CompileError) as error:
                    if self._kinds.keep_whole((args, kwargs)):
                        return self(*args, **kwargs)
                    self._fall_back(tuple(key), error)
                    break
                except (Exception, SystemExit) as error:
                    if isinstance(error, (TraceAborted, Warning)):  # a filter may turn warnings into errors
                        raise
                    failure = error
                    break
                if not program.admits(arguments) or self._only_traces(program):
                    break
                try:
                    with _telling(self.name), FewCollections():
                        return program.run_from(program.decisions.known, arguments)
                except Mispredicted as other:
                    answers, hints = other.answers, other.hints
                except Interrupted:
                    interrupted = program
                    break
            if interrupted is not None:
                return interrupted.replay(self.function, args, kwargs)
        try:
            result = self.function(*args, **kwargs)
        except RuntimeError as error:
            if failure is None or not getattr(error, "details", None):
                raise
            raise failure from error  # other ranks run the program, and disagree before the eager step gets that far
        if failure is not None:
            warn(
                f"{self.name} ran eagerly, without a program: compiling it raised {failure!r} at "
                f"{line_of(failure)}, but running it does not.",
                CompileWarning,
            )
        return result

    def _only_traces(self, program: Program) -> bool:
        """Return whether a program serves one call only, which runs eagerly because XLA would take longer."""
        return program.runs_as_written and not self.compiles_first_step

    def _fall_back(self, key: Any, error: Exception) -> None:
        """With `fallback="eager"`, run calls like a refused one eagerly, and warn once; else raise."""
        if self.fallback is None or not isinstance(error, CompileError):
            raise error
        reason = str(error).removeprefix("undertow.compile: ")
        if reason not in self.eager.values():
            warn(f"{self.name} runs eagerly, without a program: {reason}", CompileWarning)
        self.eager[key] = reason
        if not self.programs.get(key, True):
            del self.programs[key]
        while len(self.eager) > KEPT:
            del self.eager[next(iter(self.eager))]

    def _may_compile(self) -> bool:
        """Return whether a call without a program is to be compiled; see `torch.compiler.set_stance`."""
        first, self._was_called = not self._was_called, True
        if slow_path.stance == "fail_on_recompile":
            raise RuntimeError(
                f"Detected recompile when torch.compile stance is 'fail_on_recompile'. {self.name} has no program for this "
                "call; compile.explain() lists those that it has."
            )
        return slow_path.stance != "eager_on_recompile" and not (first and slow_path.stance == "eager_then_compile")

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Return a compiled method: each object has its own programs."""
        if instance is None:
            return self
        bound = Compiled(self.function.__get__(instance, owner), self.fallback, self.asked_dynamic)
        vars(instance)[self.function.__name__] = bound
        return bound

    def __deepcopy__(self, memo: dict[int, Any]) -> Compiled:
        """Return a copy without programs: they belong to the tensors of the original."""
        twin = Compiled(copy.deepcopy(self.function, memo), self.fallback, self.asked_dynamic)
        twin.name = self.name
        return twin

    def __reduce__(self) -> tuple[Any, ...]:
        return Compiled, (self.function, self.fallback, self.asked_dynamic)

    def _compile(
        self,
        programs: list[Program],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        arguments: list[Any],
        numbers: list[Any],
        decided: tuple[tuple[Answer, ...], Hints],
        padded: PaddedCall | None = None,
    ) -> Program:
        splitter = EffectSplitter(self.function, args, kwargs, self.coverage)
        self.coverage = splitter.reading.coverage
        args, kwargs = self._kinds.apart((args, kwargs))
        if isinstance(numbers, Numbers):
            given = argument_names(self.function, args, kwargs)
            numbers.names = [name for name, value in given if type(value) in (int, float)]
        signature = call_signature(self.function, args, kwargs)
        if cause := reason_for(programs, decided[0], arguments, signature, self._signatures):
            self._note(cause)
        plan = Plan()
        if programs:
            programs[0].inform(plan)
        plan.answers, plan.hints = [*decided[0]], decided[1]
        if programs and not plan.answers:  # most likely its branches go the same way
            plan.hints = programs[0].decisions.as_hints()
        plan.kinds = self._kinds
        plan.lengths = None if padded is None else padded.lengths
        plan.exact_types = splitter.reading.compares_types("int", "float", "__name__")
        splitter.exact_tensors = splitter.reading.compares_types("Tensor", "__name__")
        reads_options = any(
            "param_groups" in each.function.__code__.co_names for each in splitter.reading.all_statements()
        )
        plan.plain_numbers = reads_options and splitter.reading.compares_types("float")
        plan.splitter, plan.counts = splitter, not plan.exact_types
        self._signatures = [*self._signatures[-MOST:], signature]
        if numbers:
            plan.numbers = numbers
            args, kwargs = in_places((args, kwargs))
        args, kwargs = apart((args, kwargs))
        try:
            for _ in range(MOST_TRACES):
                try:
                    with Compiling():
                        program = make_program(Call(self.function, args, kwargs), plan)
                    break
                except ScalarBecameConstant:
                    if not splitter.lift():
                        plan.plain_numbers = True
                except Retrace:  # the plan now has more facts about the hooks
                    continue
                except CompileError as error:
                    self.refused = str(error)
                    raise
            else:
                self.refused = f"{self.name} was traced {MOST_TRACES} times, and each trace found something new"
                raise CompileError(
                    f"undertow.compile: {self.refused}. Call the step once uncompiled, so that optimizers have their "
                    "state, or use compile(step, fallback='eager'), which runs it without a program."
                )
        except BaseException:
            if plan.first is not None:
                plan.first.take_back()
            raise
        finally:
            splitter.release()
        self.refused = ""
        program.turn, program.used = next(_turns), next(_clock)
        programs.insert(0, program)
        self._evict(programs)
        return program

    def _evict(self, programs: list[Program]) -> None:
        """Evict the least recently used programs if there are too many."""
        if len(programs) > MOST:
            programs.remove(min(programs, key=lambda each: each.used))
            self.evicted += 1
        while sum(map(len, self.programs.values())) > KEPT:
            key = min((key for key in self.programs if self.programs[key]), key=lambda key: self.programs[key][-1].used)
            self.programs[key].remove(min(self.programs[key], key=lambda each: each.used))
            self.evicted += 1
        for key in [key for key, kept in self.programs.items() if not kept]:
            del self.programs[key]
            self._numbers.pop(key, None)

    def _note(self, cause: str) -> None:
        self.causes.append(cause)
        del self.causes[:-_CAUSES]
        self._recompiles += 1
        if self._recompiles % MANY == 0:
            cure = (
                " If a size varies, compile(step, dynamic=...) has one program for many."
                if " of shape [" in cause
                else ""
            )
            warn(
                f"{self.name} was compiled {self._recompiles + 1} times, the last time because {cause}. "
                f"compile.explain() lists the reasons.{cure}",
                CompileWarning,
            )


def _shown(padded: PaddedCall | None, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Return the arguments for a trace."""
    return (args, kwargs) if padded is None else (padded.args, padded.kwargs)


def _rare_modes(modes: ThreadModes) -> tuple[Any, ...]:
    """Return the modes around a call that would act on its ops."""
    asking = [*modes.function_modes, *modes.dispatch_modes]
    if asking:
        raise CompileError(
            f"undertow.compile: a {type(asking[-1]).__name__} is active around a compiled step, and has to see every "
            "function that the step calls, but a program calls none. Call the step outside of the mode, or uncompiled."
        )
    return tuple((id(pack), id(unpack)) for pack, unpack, _ in modes.saved_hooks)


def _describe(tree: Any, key: list[Any], tensors: list[Any], numbers: list[Any], kinds: Kinds, met: list[Any]) -> None:
    """Add the signature of nested arguments to a key, and the tensors and plain numbers among them to lists."""
    if isinstance(tree, TensorCore) and not tree._is_strided:
        parts = parts_of_sparse(tree)
        key += (type(parts), tuple(parts.sizes), parts.coalesced)
        _describe(parts[:2], key, tensors, numbers, kinds, met)
    elif isinstance(tree, TensorCore):
        array, meta = tree._array, tree._meta
        tensors.append(tree)
        key += (array.shape, array.dtype, tree._requires_grad)
        if type(tree) is not Tensor:
            key.append(type(tree))
        if tree.__dict__:
            key.append(attributes_of(tree))
        if not array.flags.c_contiguous:  # draws are made in the order of memory
            key.append(array.strides)
        if type(array) is DeviceArray and array.device is not cpu:
            key.append(array.device)
        if meta is not None and tree._edge is None:
            key += (meta.grad is None, *map(id, (*(meta.hooks or {}).values(), *(meta.post_hooks or {}).values())))
            key += map(id, hooks_on_node(meta) or ())
            if meta.grad_dtype is not None:
                key += ("grad_dtype", meta.grad_dtype.dtype)
    elif isinstance(tree, (tuple, list)) and type(tree) is not Size:
        key += (type(tree), len(tree))
        if type(tree) not in (tuple, list) and instance_dict(tree):
            key.append(attributes_of(tree))
        for part in tree:
            _describe(part, key, tensors, numbers, kinds, met)
    elif isinstance(tree, dict):
        key += (type(tree), *map(signature, tree))
        if type(tree) is not dict and instance_dict(tree):
            key.append(attributes_of(tree, tree))
        for part in tree.values():
            _describe(part, key, tensors, numbers, kinds, met)
    elif type(tree) in (int, float):
        key.append(type(tree))
        numbers.append(tree)
    elif kinds.is_record(tree):
        again = any(tree is each for each in met)
        key += (type(tree), again)
        met.append(tree)
        _describe(() if again else vars(tree), key, tensors, numbers, kinds, met)
    else:
        key.append(signature(tree))


def reset() -> None:
    """Forget every compiled program."""
    for compiled in list(everything):
        compiled.programs.clear()
        compiled.coverage = None
        compiled._signatures.clear()
        compiled._numbers.clear()
        compiled.causes.clear()
        compiled.eager.clear()
        if compiled.dynamic is not None:
            compiled.dynamic.forget()
        compiled._recompiles = compiled.evicted = 0
