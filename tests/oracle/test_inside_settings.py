"""Settings of PyTorch's inner modules, and tensors in folders."""

from __future__ import annotations

import importlib
import os
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import pytest

from tests.oracle.harness import agree, agree_error


def test_settings_of_files_can_be_set_for_a_block(tmp_path: Path) -> None:
    def program(torch: Any) -> Any:
        config = importlib.import_module(f"{torch.__name__}.utils.serialization.config")
        found: list[Any] = [config.load.mmap, config.load.endianness, config.save.storage_alignment]
        with config.patch({"save.storage_alignment": 4096, "load.mmap": True}):
            torch.save({"a": torch.arange(5.0)}, tmp_path / "file.pt")
            found += [
                (tmp_path / "file.pt").stat().st_size // 4096,
                config.load.mmap,
                torch.load(tmp_path / "file.pt")["a"],
            ]
        torch.serialization.set_crc32_options(False)
        found.append(config.save.compute_crc32)
        config.save.compute_crc32 = True
        return [*found, torch.serialization.get_crc32_options(), config.load.mmap, config.save.storage_alignment]

    agree(program)
    inside = "utils.serialization.config"
    agree_error(lambda torch: importlib.import_module(f"{torch.__name__}.{inside}").patch(nope=1).__enter__())


SETTINGS = """
flag, number = True, 3
told = Config(default=True, env_name_default="A_SETTING")
class part:
    inner = 1
install_config_module(sys.modules[__name__])
"""


def test_modules_of_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SETTING", "0")

    def program(torch: Any) -> Any:
        inner = f"{torch.__name__}.utils._config_module"
        file = tmp_path / f"settings_of_{torch.__name__}.py"
        file.write_text(f"import sys\nfrom {inner} import Config, install_config_module\n{SETTINGS}")
        sys.modules.pop("settings", None)
        settings: Any = SourceFileLoader("settings", str(file)).load_module()
        found = [settings.flag, settings.part.inner, settings.told, settings.codegen_config()]

        @settings.patch(number=4)
        def inside() -> Any:
            return settings.number, sorted(settings.codegen_config()), settings._is_default("number")

        with settings.patch("flag", False):
            found.append((settings.flag, inside()))
        settings.part.inner = 2
        found.append(settings.get_config_copy())
        saved = settings.save_config()
        settings.number = 9
        settings.load_config(saved)
        return [*found, settings.flag, settings.number, settings.get_type("number")]

    agree(program)


def test_tensors_in_a_folder(tmp_path: Path) -> None:
    def program(torch: Any) -> Any:
        store = importlib.import_module(f"{torch.__name__}.utils._content_store")
        folder = str(tmp_path / torch.__name__)
        table = torch.arange(6.0).reshape(2, 3)
        writer = store.ContentStoreWriter(folder, stable_hash=True)
        for name, tensor in {"a/table": table, "turned": table.t(), "row": table[1]}.items():
            writer.write_tensor(name, tensor)
        reader = store.ContentStoreReader(folder)
        read = [reader.read_tensor(name) for name in ("a/table", "turned", "row")]
        read[0][1, 0] = 9
        return read, os.listdir(f"{folder}/storages"), reader.read_tensor_metadata("turned")

    agree(program)
