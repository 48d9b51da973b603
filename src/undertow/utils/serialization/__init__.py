"""What can be set about files of tensors."""

from undertow.utils.serialization import config as config
