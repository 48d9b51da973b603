"""torch.utils.data: datasets, samplers, and the loader that turns them into batches."""

from undertow._src.base.lazy import lazy_names
from undertow.utils.data._utils.collate import default_collate as default_collate
from undertow.utils.data._utils.collate import default_convert as default_convert
from undertow.utils.data._utils.worker import get_worker_info as get_worker_info
from undertow.utils.data.dataloader import DataLoader as DataLoader
from undertow.utils.data.dataloader import _DatasetKind as _DatasetKind
from undertow.utils.data.dataset import ChainDataset as ChainDataset
from undertow.utils.data.dataset import ConcatDataset as ConcatDataset
from undertow.utils.data.dataset import Dataset as Dataset
from undertow.utils.data.dataset import IterableDataset as IterableDataset
from undertow.utils.data.dataset import StackDataset as StackDataset
from undertow.utils.data.dataset import Subset as Subset
from undertow.utils.data.dataset import TensorDataset as TensorDataset
from undertow.utils.data.dataset import random_split as random_split
from undertow.utils.data.distributed import DistributedSampler as DistributedSampler
from undertow.utils.data.sampler import BatchSampler as BatchSampler
from undertow.utils.data.sampler import RandomSampler as RandomSampler
from undertow.utils.data.sampler import Sampler as Sampler
from undertow.utils.data.sampler import SequentialSampler as SequentialSampler
from undertow.utils.data.sampler import SubsetRandomSampler as SubsetRandomSampler
from undertow.utils.data.sampler import WeightedRandomSampler as WeightedRandomSampler

_LAZY = dict.fromkeys(
    ("DFIterDataPipe", "IterDataPipe", "MapDataPipe", "functional_datapipe"), "undertow.utils.data.datapipes.datapipe"
)
_LAZY |= {name: f"undertow.utils.data.{name}" for name in ("datapipes", "graph_settings")}
__getattr__, __dir__ = lazy_names(__name__, _LAZY)
