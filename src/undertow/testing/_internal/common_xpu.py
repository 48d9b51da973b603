"""What tests ask about Intel's GPUs: there is none."""

from undertow.testing._internal.common_utils.facts import IS_WINDOWS as IS_WINDOWS

TEST_XPU = XPU_ALREADY_INITIALIZED_ON_IMPORT = False


def evaluate_platform_supports_flash_attention() -> bool:
    return False


def get_xpu_codename() -> None:
    """Return the kind of GPU: none."""


get_xpu_arch = get_xpu_codename
