"""In which order equal elements come out of a sort, and what packing by length makes of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.oracle.harness import agree, to_tensor


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("length", [2, 16, 17, 24, 33, 100, 1000])
def test_equal_elements(length: int, descending: bool) -> None:
    def program(torch: Any, log: Any) -> None:
        random = np.random.RandomState(length)
        for distinct in (1, 2, 5, 40, length // 2):
            for kind in ("int64", "uint8", "float32", "bfloat16"):
                x = to_tensor(torch, random.randint(0, distinct, length).astype(np.float32), dtype=kind)
                log(x.sort(descending=descending), x.argsort(descending=descending))
                log(x.sort(stable=True, descending=descending), x.argsort(stable=True, descending=descending))
                log(x.sort(stable=False, descending=descending))

    agree(program)


@pytest.mark.parametrize("length", [1, 2, 8, 16, 17, 40, 200])
def test_the_best_of_equal_elements(length: int) -> None:
    """Where more than a 64th is asked for; below that PyTorch keeps a heap."""

    def program(torch: Any, log: Any) -> None:
        random = np.random.RandomState(length)
        for distinct in (1, 2, 5, 40):
            x = to_tensor(torch, random.randint(0, distinct, (3, length)).astype(np.float32))
            for k in {1, 2, length // 2, length - 1, length}:
                if 0 < k <= length and length < 64 * k:
                    log(k, x.topk(k), x.topk(k, largest=False), x.t().topk(k, 0))

    agree(program)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_equal_elements_along_a_dim(dim: int) -> None:
    def program(torch: Any) -> Any:
        random = np.random.RandomState(dim)
        x = random.choice([0.0, 1.0, 2.0, float("nan"), -1.0, float("inf")], (20, 18, 30)).astype(np.float32)
        return to_tensor(torch, x).sort(dim).indices, to_tensor(torch, x).sort(dim, descending=True).indices

    agree(program)


@pytest.mark.parametrize("cell", ["RNN", "GRU", "LSTM"])
def test_sequences_of_equal_length_are_packed_in_the_same_order(cell: str) -> None:
    def program(torch: Any, log: Any) -> None:
        rnn = torch.nn.utils.rnn
        lengths = torch.randint(1, 8, (40,))
        packed = rnn.pack_padded_sequence(torch.randn(40, 8, 3), lengths, batch_first=True, enforce_sorted=False)
        log(packed.sorted_indices, packed.unsorted_indices)
        module = getattr(torch.nn, cell)(3, 4, num_layers=2, dropout=0.3, batch_first=True)
        log(rnn.pad_packed_sequence(module(packed)[0]))

    agree(program)
