"""Unmodified programs of accelerate and Lightning on ranks, on PyTorch and on undertow: `make test-packages`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

_ACCELERATE = """
import torch
from torch.utils.data import DataLoader, TensorDataset
from accelerate import Accelerator
from accelerate.utils import set_seed

set_seed(0)
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
x = torch.randn(32, 4)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=4, shuffle=True)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for epoch in range(2):
    for a, b in loader:
        with accelerator.accumulate(model):
            loss = torch.nn.functional.mse_loss(model(a), b)
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
    accelerator.print("RESULT", epoch, [round(v, 4) for v in accelerator.gather(loss.detach().reshape(1)).tolist()])
accelerator.wait_for_everyone()
print(f"RESULT {accelerator.process_index} {accelerator.num_processes} {type(model).__name__}\\n", end="", flush=True)
"""

_LIGHTNING = """
import torch, lightning
from torch.utils.data import DataLoader, TensorDataset

class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    def training_step(self, batch, number):
        loss = torch.nn.functional.mse_loss(self.net(batch[0]), batch[1])
        self.log("loss", loss, sync_dist=True)
        return loss
    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-2)

if __name__ == "__main__":
    lightning.seed_everything(0, verbose=False)
    x = torch.randn(64, 4)
    net = Net()
    trainer = lightning.Trainer(
        accelerator="cpu", devices=2, strategy="ddp", max_epochs=2, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )
    trainer.fit(net, DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=8, shuffle=True))
    total = sum(p.sum().item() for p in net.parameters())
    loss = round(trainer.callback_metrics["loss"].item(), 4)
    print(f"RESULT {trainer.global_rank} {loss} {round(total, 4)}\\n", end="", flush=True)
"""

_TORCHRUN = ["-m", "torch.distributed.run", "--nproc-per-node", "2"]
_LAUNCH = ["-m", "accelerate.commands.launch", "--cpu"]
# name: (the program, how PyTorch starts it, how undertow does)
_PROGRAMS = {
    "accelerate launch --cpu": (_ACCELERATE, _LAUNCH, ["-m", "undertow", "run", *_LAUNCH]),
    "accelerate, 2 ranks": (_ACCELERATE, _TORCHRUN, ["-m", "undertow", "run", "--nproc-per-node", "2"]),
    "lightning, ddp": (_LIGHTNING, [], ["-m", "undertow", "run"]),
}


def results(program: Path, start: list[str]) -> list[str]:
    """Return what the ranks of a program print, in a fixed order."""
    done = subprocess.run(
        [sys.executable, *start, str(program)], capture_output=True, text=True, timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    lines = [line.partition("RESULT")[2].strip() for line in done.stdout.splitlines() if "RESULT" in line]
    return sorted(lines) if done.returncode == 0 and lines else [f"exit {done.returncode}", done.stderr[-2000:]]


def main() -> None:
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "program.py"
        for name, (text, theirs, ours) in _PROGRAMS.items():
            program.write_text(text)
            expected, found = results(program, theirs), results(program, ours)
            wrong += expected != found
            print(f"{name}: {'the same' if expected == found else f'{found}, not {expected}'}", flush=True)
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
