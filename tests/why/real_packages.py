"""`why` in the real Lightning, transformers and IPython, which `make test` does without: `make test-packages`."""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")


def with_lightning(broken: bool) -> Any:
    """Fit a module, and return the findings of its first two steps."""
    import torch

    from undertow import why

    lightning: Any = importlib.import_module("lightning")

    class Net(lightning.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.encoder = torch.nn.Linear(4, 4)
            self.head = torch.nn.Linear(4, 1)

        def training_step(self, batch: Any, number: int) -> Any:
            features = self.encoder(batch[0]).relu()
            if broken:
                features = features.detach()
            return (self.head(features) - batch[1]).pow(2).mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters(), lr=0.1)

    torch.manual_seed(0)
    data = torch.utils.data.TensorDataset(torch.randn(32, 4), torch.randn(32, 1))
    callback = why.lightning_callback(steps=2)
    trainer = lightning.Trainer(
        max_epochs=1, callbacks=[callback], accelerator="cpu", logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, gradient_clip_val=1.0,
    )  # fmt: skip
    trainer.fit(Net(), torch.utils.data.DataLoader(data, batch_size=8))
    return callback.findings


def with_transformers(broken: bool, folder: str) -> Any:
    """Train a small GPT-2, and return the findings of its first two steps."""
    import torch

    from undertow import why

    transformers: Any = importlib.import_module("transformers")

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            sizes = {"n_layer": 2, "n_head": 2, "n_embd": 16, "vocab_size": 32, "n_positions": 16}
            self.body = transformers.GPT2Model(transformers.GPT2Config(**sizes))
            self.head = torch.nn.Linear(16, 32)

        def forward(self, input_ids: Any, labels: Any) -> Any:
            features = self.body(input_ids).last_hidden_state
            if broken:
                features = features.detach()
            return {"loss": torch.nn.functional.cross_entropy(self.head(features).flatten(0, 1), labels.flatten())}

    torch.manual_seed(0)
    data = [{"input_ids": torch.arange(8), "labels": torch.arange(8)}] * 32
    callback = why.transformers_callback(steps=2)
    arguments = transformers.TrainingArguments(
        output_dir=folder, max_steps=4, report_to=[], save_strategy="no", use_cpu=True, disable_tqdm=True
    )
    transformers.Trainer(Model(), arguments, train_dataset=data, callbacks=[callback]).train()
    return callback.findings


CELLS = """import torch
net = torch.nn.Linear(2, 1)
loss = torch.nn.functional.linear(torch.ones(1, 2), net.weight.detach(), net.bias).sum()
loss.backward()
print(net.weight.grad)
"""


def with_ipython() -> Any:
    """Run a cell under `%%why`, and return what it found."""
    shell: Any = importlib.import_module("IPython.core.interactiveshell").InteractiveShell.instance()
    shell.run_cell("%load_ext undertow.why").raise_error()
    shell.run_cell(f"%%why found\n{CELLS}").raise_error()
    return shell.user_ns["found"]


def main() -> None:
    file = Path(__file__).read_text().splitlines()
    cuts = [number for number, text in enumerate(file, 1) if text.strip() == "features = features.detach()"]
    with tempfile.TemporaryDirectory() as folder:
        answers = {
            "lightning, broken": (with_lightning(True), [("detached", cuts[0], "model.encoder.weight")]),
            "lightning, healthy": (with_lightning(False), []),
            "transformers, broken": (with_transformers(True, folder), [("detached", cuts[1], "model.body.wte.weight")]),
            "transformers, healthy": (with_transformers(False, folder), []),
            "ipython": (with_ipython(), [("detached", 3, "net.weight")]),
        }
    wrong = 0
    for name, (findings, expected) in answers.items():
        found = [(finding.code, finding.line, finding.subject) for finding in findings]
        wrong += found != expected
        print(f"{name}: {'right' if found == expected else f'{found}, not {expected}'}")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
