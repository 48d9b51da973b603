# Written by `make tables` from the modules themselves: do not edit.
from undertow.utils.data.sampler import BatchSampler as BatchSampler, RandomSampler as RandomSampler, Sampler as Sampler, SequentialSampler as SequentialSampler, SubsetRandomSampler as SubsetRandomSampler, WeightedRandomSampler as WeightedRandomSampler
from undertow.utils.data.dataset import ChainDataset as ChainDataset, ConcatDataset as ConcatDataset, Dataset as Dataset, IterableDataset as IterableDataset, StackDataset as StackDataset, Subset as Subset, TensorDataset as TensorDataset, random_split as random_split
from undertow.utils.data.datapipes.datapipe import DFIterDataPipe as DFIterDataPipe, IterDataPipe as IterDataPipe, MapDataPipe as MapDataPipe, functional_datapipe as functional_datapipe
from undertow.utils.data.dataloader import DataLoader as DataLoader, _DatasetKind as _DatasetKind
from undertow.utils.data.distributed import DistributedSampler as DistributedSampler
from undertow.utils.data import _utils as _utils, dataloader as dataloader, datapipes as datapipes, dataset as dataset, distributed as distributed, graph_settings as graph_settings, sampler as sampler
from undertow.utils.data._utils.collate import default_collate as default_collate, default_convert as default_convert
from undertow.utils.data._utils.worker import get_worker_info as get_worker_info
__all__: list[str]
