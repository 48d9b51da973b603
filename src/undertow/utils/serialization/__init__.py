"""Settings for files of tensors."""

from undertow.utils.serialization import config as config
