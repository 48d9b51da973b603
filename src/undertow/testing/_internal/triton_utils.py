"""What tests ask about Triton: it is not here."""

import unittest

HAS_GPU = HAS_CUDA_AND_TRITON = HAS_XPU_AND_TRITON = False

requires_cuda_and_triton = unittest.skip("requires cuda and triton")
requires_xpu_and_triton = unittest.skip("requires xpu and triton")
requires_gpu_and_triton = unittest.skip("requires gpu and triton")
requires_gpu = unittest.skip("requires gpu")
