"""torch.distributed.checkpoint: what it saves and loads is what PyTorch saves and loads, with any number of ranks."""

from __future__ import annotations

import importlib
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.distributed import checkpoint_programs
from tests.distributed.compare import assert_same
from tests.distributed.pools import pool

HERE = "tests.distributed.checkpoint_programs"


def _shown(engine: str, program: Any, *args: Any) -> list[str]:
    lines: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program(importlib.import_module(engine), lambda *values: lines.append(" ".join(map(str, values))), *args)
    return lines


def test_one_process_shows_what_it_shows_on_pytorch(tmp_path: Path) -> None:
    theirs = _shown("torch", checkpoint_programs.one_process, str(tmp_path / "torch"))
    ours = _shown("undertow", checkpoint_programs.one_process, str(tmp_path / "undertow"))
    assert ours == theirs and len(ours) > 20


@pytest.mark.parametrize("program", ["entries", "state_dicts"])
def test_two_ranks_show_what_they_show_on_pytorch(program: str) -> None:
    assert_same(f"{HERE}:{program}")


def test_all_ranks_get_what_only_rank_0_has() -> None:
    for lines in pool("undertow").run(f"{HERE}:from_rank_0"):
        assert lines == ["True True", "True True", "RuntimeError The option indicates that model"]


@pytest.mark.parametrize("saver", ["undertow", "torch"])
def test_a_sharded_model_of_two_ranks_is_loaded_by_any_number(saver: str, tmp_path: Path) -> None:
    saved = pool(saver).run(f"{HERE}:save_sharded {tmp_path}")
    assert saved[0] == saved[1]
    assert pool("undertow").run(f"{HERE}:load_sharded {tmp_path}") == saved
    assert pool("undertow", 4).run(f"{HERE}:load_sharded {tmp_path}") == saved * 2
    assert _shown("undertow", _loaded_alone, str(tmp_path)) == saved[0]


def test_pytorch_loads_a_sharded_model_that_undertow_saved(tmp_path: Path) -> None:
    saved = pool("undertow").run(f"{HERE}:save_sharded {tmp_path}")
    assert pool("torch").run(f"{HERE}:load_sharded {tmp_path}") == saved
    assert _shown("torch", _loaded_alone, str(tmp_path)) == saved[0]


def _loaded_alone(torch: Any, show: Any, folder: str) -> None:
    kit = checkpoint_programs.Kit(torch, show)
    model = kit.model(1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    checkpoint_programs.load_into(kit, model, optimizer, folder)
    show(kit.v(kit.states.get_state_dict(model, optimizer)))


def test_the_state_of_a_zero_redundancy_optimizer_is_loaded_by_four_ranks(tmp_path: Path) -> None:
    saved = pool("undertow").run(f"{HERE}:save_zero {tmp_path}")
    assert pool("undertow", 4).run(f"{HERE}:load_zero {tmp_path}") == [[saved[0][0], "True"]] * 4
    assert _shown("undertow", _loaded_alone, str(tmp_path)) == saved[0]


def test_a_save_that_fails_on_one_rank_leaves_the_earlier_checkpoint(tmp_path: Path) -> None:
    for lines in pool("undertow").run(f"{HERE}:failed_on_one_rank {tmp_path}"):
        assert lines == [
            "{1: 'OSError the disk is full'} CheckpointException ranks:dict_keys([1])",
            "{'t': ((2,), [1.0, 1.0])} True",
            "{'t': ((2,), [0.0, 0.0])} 2",
        ]


def test_a_program_may_communicate_while_a_checkpoint_is_saved(tmp_path: Path) -> None:
    expected = "{'t': ((1000,), [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]), 'n': {'l': [((2,), [1.0, 1.0]), 3], 's': {1}}}"
    assert pool("undertow").run(f"{HERE}:saved_while_communicating {tmp_path}") == [[expected]] * 2


def test_damaged_checkpoints_are_refused_by_name(tmp_path: Path) -> None:
    import undertow as torch
    import undertow.distributed.checkpoint as dcp

    def refusal(words: str) -> None:
        with warnings.catch_warnings(), pytest.raises(dcp.CheckpointException) as caught:
            warnings.simplefilter("ignore")
            dcp.load({"t": torch.zeros(2)}, checkpoint_id=tmp_path / "c")
        assert words in str(caught.value)

    refusal("no checkpoint: there is no .metadata in")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.save({"t": torch.ones(2)}, checkpoint_id=tmp_path / "c")
    data, metadata = tmp_path / "c" / "__0_0.distcp", tmp_path / "c" / ".metadata"
    data.write_bytes(data.read_bytes()[:-10])
    refusal("t can't be read")
    metadata.write_bytes(metadata.read_bytes()[:50])
    refusal("is no metadata of a checkpoint")
    for module, name in (
        ("builtins", "print"), ("pathlib", "os"), ("torch.distributed.checkpoint.filesystem", "pickle"),
        ("torch.distributed.checkpoint.filesystem", "save"), ("torch.distributed.checkpoint", "FileSystemWriter"),
    ):  # fmt: skip
        metadata.write_bytes(f"c{module}\n{name}\n(I1\nV{tmp_path / 'written'}\ntR.".encode())
        refusal(f"it names {module}.{name}, which is not data")
    assert not (tmp_path / "written").exists()


def test_a_name_stands_for_a_tensor_on_all_ranks_or_on_none() -> None:
    import undertow as torch
    import undertow.distributed.checkpoint as dcp

    plans = []
    for value in (torch.ones(2), 3):
        planner = dcp.DefaultSavePlanner()
        planner.set_up_planner({"n": value})
        plans.append(planner.create_local_plan())
    for order in (plans, plans[::-1]):
        with pytest.raises(ValueError, match="the ranks have different entries of the name n"):
            planner.create_global_plan(order)


def test_options_that_would_change_a_checkpoint_are_refused_by_name(tmp_path: Path) -> None:
    import undertow as torch
    import undertow.distributed.checkpoint as dcp
    from undertow.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

    refused: dict[str, Any] = {
        "use_collectives": lambda: dcp.save({}, checkpoint_id=tmp_path, no_dist=True, use_collectives=False),
        "_extensions": lambda: dcp.FileSystemWriter(tmp_path, _extensions=[object()]),
        "dsd_fqn_modifiers": lambda: get_model_state_dict(
            torch.nn.Linear(1, 1), options=StateDictOptions(dsd_fqn_modifiers="renamed")
        ),
    }
    for name, call in refused.items():
        with pytest.raises(NotImplementedError, match=f"leave out {name}"):
            call()
    assert not list(tmp_path.iterdir())
