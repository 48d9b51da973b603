"""Modules over several devices."""

from undertow.nn.parallel.data_parallel import DataParallel as DataParallel
from undertow.nn.parallel.data_parallel import data_parallel as data_parallel
from undertow.nn.parallel.distributed import DistributedDataParallel as DistributedDataParallel
from undertow.nn.parallel.parallel_apply import parallel_apply as parallel_apply
from undertow.nn.parallel.replicate import replicate as replicate
from undertow.nn.parallel.scatter_gather import gather as gather
from undertow.nn.parallel.scatter_gather import scatter as scatter
