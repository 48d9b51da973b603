"""How batches are fetched, put together, and made in worker processes."""

from undertow.utils.data._utils import collate as collate
from undertow.utils.data._utils import fetch as fetch
from undertow.utils.data._utils import worker as worker
