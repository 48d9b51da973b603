"""The causes that `why` knows. To add one, see docs/adding_a_cause.md."""

from __future__ import annotations

from undertow.why.causes.accumulated_grad import AccumulatedGrad
from undertow.why.causes.across_ranks import RANK_CAUSES
from undertow.why.causes.base import Cause as Cause
from undertow.why.causes.beyond_gradients import BroadcastTarget, FirstOrderStep, MovingStatistics
from undertow.why.causes.cleared import Cleared
from undertow.why.causes.custom_backward import CustomBackward
from undertow.why.causes.data_parallel import (
    Bypassed,
    FrozenParameter,
    LostInSharding,
    NoSyncWrongHalf,
    ReadyTwice,
    StepInHook,
    UnusedParameter,
)  # fmt: skip
from undertow.why.causes.dead_branch import DeadBranch
from undertow.why.causes.detached import Detached
from undertow.why.causes.duplicate_hook import DuplicateHook
from undertow.why.causes.excluded_by_inputs import ExcludedByInputs
from undertow.why.causes.forward_called_directly import ForwardCalledDirectly
from undertow.why.causes.freed_graph import FreedGraph
from undertow.why.causes.graph_leak import GraphLeak
from undertow.why.causes.growing_graph import GrowingGraph
from undertow.why.causes.hook_after_backward import HookAfterBackward
from undertow.why.causes.hook_excluded_by_inputs import HookExcludedByInputs
from undertow.why.causes.hook_on_copy import HookOnCopy
from undertow.why.causes.hook_on_dead_end import HookOnDeadEnd
from undertow.why.causes.hook_on_old_version import HookOnOldVersion
from undertow.why.causes.hook_removed import HookRemoved
from undertow.why.causes.hook_return_ignored import HookReturnIgnored
from undertow.why.causes.hook_wrong_return import HookWrongReturn
from undertow.why.causes.inplace_modified import InplaceModified
from undertow.why.causes.module_not_called import ModuleNotCalled
from undertow.why.causes.nan_born import NanBorn
from undertow.why.causes.needless_retain_graph import NeedlessRetainGraph
from undertow.why.causes.no_backward import NoBackward
from undertow.why.causes.no_grad_mode import NoGradMode
from undertow.why.causes.no_grad_output import NoGradOutput
from undertow.why.causes.no_requires_grad import NoRequiresGrad
from undertow.why.causes.not_differentiable import NotDifferentiable
from undertow.why.causes.not_frozen import NotFrozen
from undertow.why.causes.not_in_optimizer import NotInOptimizer
from undertow.why.causes.not_leaf import NotLeaf
from undertow.why.causes.output_not_a_tensor import OutputNotATensor
from undertow.why.causes.probabilities_as_logits import ProbabilitiesAsLogits
from undertow.why.causes.step_content import ClipBeforeUnscale, ClipUnused, DroppedBatches, LeftOver, NoStep, NotDivided
from undertow.why.causes.unused import Unused
from undertow.why.causes.weight_sharing import SharedTarget, StateDictReference, UntiedWeights
from undertow.why.causes.zero_by_math import ZeroByMath
from undertow.why.causes.zeroed_by_hook import ZeroedByHook

# In the order in which they are tried: the first cause that explains a symptom counts.
CAUSES: tuple[Cause, ...] = (
    # exceptions
    FrozenParameter(), UnusedParameter(), ReadyTwice(), HookWrongReturn(), FreedGraph(), InplaceModified(),
    CustomBackward(), NoGradOutput(),
    # gradients
    NotLeaf(), NoRequiresGrad(), ExcludedByInputs(), NoBackward(), Unused(), Detached(), NoGradMode(),
    NotDifferentiable(), DeadBranch(), Cleared(), ZeroedByHook(), ZeroByMath(), NanBorn(), NotInOptimizer(),
    AccumulatedGrad(), NotFrozen(),
    # data parallel
    StepInHook(), Bypassed(), NoSyncWrongHalf(),
    # hooks
    LostInSharding(), HookRemoved(), HookAfterBackward(), HookExcludedByInputs(), ForwardCalledDirectly(),
    OutputNotATensor(), HookOnOldVersion(), HookOnCopy(), HookOnDeadEnd(), ModuleNotCalled(), DuplicateHook(),
    HookReturnIgnored(),
    # graphs
    GraphLeak(), NeedlessRetainGraph(),
    # notes
    ProbabilitiesAsLogits(), LeftOver(), DroppedBatches(), NotDivided(), ClipBeforeUnscale(), ClipUnused(), NoStep(),
    BroadcastTarget(), StateDictReference(), SharedTarget(), UntiedWeights(), FirstOrderStep(), MovingStatistics(),
    GrowingGraph(),
)  # fmt: skip

CODES: dict[str, Cause] = {cause.code: cause for cause in (*CAUSES, *RANK_CAUSES)}
