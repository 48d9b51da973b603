"""torch.utils.data: datasets, samplers, and the loader that turns them into batches."""

from undertow._src.base.lazy import homes_of, lazy_names

__getattr__, __dir__ = lazy_names(__name__, homes_of(__name__, """
    _utils; dataloader: DataLoader _DatasetKind; dataset: ChainDataset ConcatDataset Dataset IterableDataset StackDataset
    Subset TensorDataset random_split; distributed: DistributedSampler; sampler: BatchSampler RandomSampler Sampler
    SequentialSampler SubsetRandomSampler WeightedRandomSampler; datapipes; graph_settings
""") | {
    "default_collate": "undertow.utils.data._utils.collate",
    "default_convert": "undertow.utils.data._utils.collate",
    "get_worker_info": "undertow.utils.data._utils.worker",
} | dict.fromkeys(
    ("DFIterDataPipe", "IterDataPipe", "MapDataPipe", "functional_datapipe"), "undertow.utils.data.datapipes.datapipe",
))  # fmt: skip
