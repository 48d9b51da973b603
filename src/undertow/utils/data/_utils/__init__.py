"""How batches are fetched, put together, and made in worker processes."""

from undertow.utils.data._utils import collate as collate
from undertow.utils.data._utils import fetch as fetch
from undertow.utils.data._utils import pin_memory as pin_memory
from undertow.utils.data._utils import worker as worker
from undertow.utils.data._utils.worker import MP_STATUS_CHECK_INTERVAL as MP_STATUS_CHECK_INTERVAL

HAS_NUMPY = True
python_exit_status = False
