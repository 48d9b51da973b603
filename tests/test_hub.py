"""`torch.hub`: weights from the web are data, unless asked otherwise, and arrive whole or not at all."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import undertow as torch
from undertow import hub


class Code:
    def __reduce__(self) -> Any:
        return os.mkdir, ("made by a pickle",)


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(hub, "_folder", str(tmp_path / "cache" / "hub"))
    yield tmp_path


def test_weights_are_data_unless_asked(in_folder: Path) -> None:
    torch.save({"w": Code()}, in_folder / "evil.pth")
    url = (in_folder / "evil.pth").as_uri()
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        hub.load_state_dict_from_url(url, progress=False)
    assert not (in_folder / "made by a pickle").exists()
    hub.load_state_dict_from_url(url, progress=False, weights_only=False)
    assert (in_folder / "made by a pickle").exists()


def test_what_is_fetched_is_kept_for_this_user_only(in_folder: Path) -> None:
    torch.save({"w": torch.ones(2)}, in_folder / "model.pth")
    url = (in_folder / "model.pth").as_uri()
    assert hub.load_state_dict_from_url(url, progress=False)["w"].tolist() == [1.0, 1.0]
    (in_folder / "model.pth").unlink()
    assert hub.load_state_dict_from_url(url, progress=False)["w"].tolist() == [1.0, 1.0]
    folder = in_folder / "cache" / "hub" / "checkpoints"
    assert os.listdir(folder) == ["model.pth"]
    for each in (folder, folder.parent, folder.parent.parent):
        assert stat.S_IMODE(each.stat().st_mode) == 0o700


def test_a_hash_that_does_not_fit(in_folder: Path) -> None:
    (in_folder / "file").write_bytes(b"content")
    digest = hashlib.sha256(b"content").hexdigest()
    hub.download_url_to_file((in_folder / "file").as_uri(), str(in_folder / "good"), digest[:8], progress=False)
    assert (in_folder / "good").read_bytes() == b"content"
    with pytest.raises(RuntimeError, match="invalid hash value"):
        hub.download_url_to_file((in_folder / "file").as_uri(), str(in_folder / "bad"), "0" * 8, progress=False)
    assert sorted(os.listdir(in_folder)) == ["file", "good"]


def test_a_download_that_is_cut_does_not_arrive(in_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Answer(io.BytesIO):
        headers = {"Content-Length": "100"}

    monkeypatch.setattr(hub.urllib.request, "urlopen", lambda request: Answer(b"only a part"))
    with pytest.raises(RuntimeError, match="11 of 100 bytes"):
        hub.download_url_to_file("http://example.invalid/model.pth", str(in_folder / "model.pth"), progress=False)
    assert os.listdir(in_folder) == []
