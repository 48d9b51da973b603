"""Compile whole training steps of tiny real models: does each compile, how long does it take, does it train alike?

    python -m benchmarks.real_models [--only REGEX] [--double] [--json OUT]

The models come from transformers, timm and x-transformers, with two layers of width 32 and random weights. Each is
trained for five steps on PyTorch, on undertow, and on undertow compiled, every time in a process of its own and from one
seed; rows of packages that are not installed are left out, and say so. A hook on a parameter logs the norm of its
gradient, another one clips. Times are the processor's: the first two calls, which are those that compile; of that, reading
source, tracing, and XLA. With --double everything is computed in float64: what then is left of a difference is no rounding.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import wraps
from importlib.util import find_spec
from typing import Any

STEPS = 5
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}


class Tables:
    """Where CPU seconds go: each to the innermost part that is under way."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.stack: list[str] = []
        self.since = 0.0

    def watch(self, owner: Any, name: str, part: str) -> None:
        """Count the time in a function or method of undertow's or JAX's towards a part."""
        function = getattr(owner, name)

        def turn() -> None:
            now = time.process_time()
            if self.stack:
                self.seconds[self.stack[-1]] = self.seconds.get(self.stack[-1], 0.0) + now - self.since
            self.since = now

        @wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            turn()
            self.stack.append(part)
            try:
                return function(*args, **kwargs)
            finally:
                turn()
                self.stack.pop()

        functions: Any = (turn, timed)
        for each in functions:  # else the compiler takes the clock for one that the step itself reads, and traces again
            each.__code__ = each.__code__.replace(co_filename=function.__code__.co_filename)
        setattr(owner, name, timed)


# --- the models: each gives a module, and a function from the number of a step to its arguments


def _text(torch: Any, step: int, length: int = 8) -> Any:
    return torch.randint(1, 60, (2, length), generator=torch.Generator().manual_seed(step))


def _image(torch: Any, step: int, size: int = 32, count: int = 2) -> Any:
    return torch.randn(count, 3, size, size, generator=torch.Generator().manual_seed(step))


def _gpt2(torch: Any) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel  # type: ignore[import-not-found, unused-ignore]

    model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_embd=32, n_head=2, vocab_size=64, n_positions=32))
    return model, lambda step: {"input_ids": _text(torch, step), "labels": _text(torch, step)}


def _bert(torch: Any) -> Any:
    from transformers import BertConfig, BertForMaskedLM  # type: ignore[import-not-found, unused-ignore]

    model = BertForMaskedLM(BertConfig(vocab_size=64, max_position_embeddings=32, **SMALL))
    mask = torch.tensor([[1] * 8, [1] * 6 + [0] * 2])
    return model, lambda step: {
        "input_ids": _text(torch, step),
        "attention_mask": mask,
        "labels": _text(torch, step + 9),
    }


def _llama(torch: Any) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM  # type: ignore[import-not-found, unused-ignore]

    model = LlamaForCausalLM(LlamaConfig(vocab_size=64, max_position_embeddings=32, num_key_value_heads=1, **SMALL))
    return model, lambda step: {"input_ids": _text(torch, step), "labels": _text(torch, step)}


def _t5(torch: Any) -> Any:
    from transformers import T5Config, T5ForConditionalGeneration  # type: ignore[import-not-found, unused-ignore]

    model = T5ForConditionalGeneration(
        T5Config(vocab_size=64, d_model=32, d_kv=16, d_ff=64, num_layers=2, num_heads=2, decoder_start_token_id=0)
    )
    return model, lambda step: {"input_ids": _text(torch, step), "labels": _text(torch, step + 9, 6)}


def _vit(torch: Any) -> Any:
    from transformers import ViTConfig, ViTForImageClassification  # type: ignore[import-not-found, unused-ignore]

    model = ViTForImageClassification(ViTConfig(image_size=32, patch_size=8, num_labels=5, **SMALL))
    return model, lambda step: {"pixel_values": _image(torch, step), "labels": torch.tensor([step % 5, 1])}


def _whisper(torch: Any) -> Any:
    from transformers import WhisperConfig, WhisperForConditionalGeneration  # type: ignore[import-not-found, unused-ignore]

    config = WhisperConfig(
        vocab_size=64, num_mel_bins=8, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=64, decoder_ffn_dim=64, max_source_positions=16,
        max_target_positions=16, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=3,
    )  # fmt: skip

    def batch(step: int) -> dict[str, Any]:
        sound = torch.randn(2, 8, 32, generator=torch.Generator().manual_seed(step))
        return {"input_features": sound, "labels": _text(torch, step, 6)}

    return WhisperForConditionalGeneration(config), batch


def _mamba(torch: Any) -> Any:
    from transformers import MambaConfig, MambaForCausalLM  # type: ignore[import-not-found, unused-ignore]

    model = MambaForCausalLM(MambaConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, state_size=4))
    return model, lambda step: {"input_ids": _text(torch, step), "labels": _text(torch, step)}


def _of_timm(name: str, size: int = 32, count: int = 2, **options: Any) -> Callable[[Any], Any]:
    def made(torch: Any) -> Any:
        import timm  # type: ignore[import-not-found, unused-ignore]

        model = timm.create_model(name, num_classes=5, **options)
        labels = [1] * (count - 1)
        return model, lambda step: {"x": _image(torch, step, size, count), "labels": torch.tensor([step % 5, *labels])}

    return made


def _x_transformers(torch: Any) -> Any:
    from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper  # type: ignore[import-not-found, unused-ignore]

    decoder = Decoder(dim=32, depth=2, heads=2, attn_dim_head=16, rotary_pos_emb=True)
    model = AutoregressiveWrapper(TransformerWrapper(num_tokens=64, max_seq_len=32, attn_layers=decoder))
    return model, lambda step: {"x": _text(torch, step, 9)}


MODELS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "GPT-2": ("transformers", _gpt2),
    "BERT": ("transformers", _bert),
    "Llama": ("transformers", _llama),
    "T5": ("transformers", _t5),
    "ViT": ("transformers", _vit),
    "Whisper": ("transformers", _whisper),
    "Mamba": ("transformers", _mamba),
    "ResNet-18": ("timm", _of_timm("resnet18", size=64, count=4)),  # else its batch norms see two numbers
    "ConvNeXt": ("timm", _of_timm("convnext_atto", depths=(1, 1, 1, 1), dims=(8, 16, 32, 32))),
    "ViT (timm)": (
        "timm",
        _of_timm("vit_tiny_patch16_224", img_size=32, patch_size=8, embed_dim=32, depth=2, num_heads=2),
    ),
    "x-transformers": ("x_transformers", _x_transformers),
}


# --- one run of one model


def loss_of(torch: Any, model: Any, batch: dict[str, Any]) -> Any:
    """The loss, however the model gives it."""
    if "x" in batch and "labels" in batch:
        return torch.nn.functional.cross_entropy(model(batch["x"]), batch["labels"])
    result = model(**batch)
    return result if isinstance(result, torch.Tensor) else result.loss


def run(name: str, engine: str, double: bool = False) -> dict[str, Any]:
    """Train one model for a few steps, and say what came out."""
    import torch

    if double:
        torch.set_default_dtype(torch.float64)
    tables = Tables()
    if engine == "undertow.compile":
        watch_the_compiler(tables)
    torch.manual_seed(0)
    model, batch = MODELS[name][1](torch)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    norms: list[float] = []

    def log(gradient: Any) -> None:
        norms.append(gradient.norm().item())

    def clip(gradient: Any) -> Any:
        return gradient.clamp(-0.01, 0.01)

    weights = [each for each in model.parameters() if each.ndim > 1]
    weights[0].register_hook(log)
    weights[-1].register_hook(clip)

    def step(batch: dict[str, Any]) -> Any:
        optimizer.zero_grad()
        loss = loss_of(torch, model, batch)
        loss.backward()
        optimizer.step()
        return loss.detach()

    called: Any = torch.compile(step) if engine == "undertow.compile" else step
    batches = [batch(number) for number in range(STEPS)]
    losses, seconds = [], []
    for number in range(STEPS):
        begin = time.process_time()
        losses.append(called(batches[number]).item())
        seconds.append(time.process_time() - begin)
    programs = torch.compile.explain(called).data[0]["programs"] if engine == "undertow.compile" else []
    ran = [each for each in programs if each["compile_seconds"] is not None]
    if engine == "undertow.compile" and not ran:
        raise SystemExit(f"ran eagerly: {called.refused}")
    return {"losses": losses, "norms": norms, "seconds": seconds, "parts": tables.seconds, "programs": len(ran)}


def watch_the_compiler(tables: Tables) -> None:
    """Count towards parts what undertow.compile does in this process."""
    from jax._src import compiler

    from undertow._src.compile import compiled, program
    from undertow._src.compile.callbacks import hook_placement
    from undertow._src.compile.splitting import effect_splitting

    tables.watch(compiled.Compiled, "__call__", "tracing")
    for method in ("__init__", "keep", "move_what_needed", "split_hook", "descend", "lift", "read_more"):
        tables.watch(effect_splitting.EffectSplitter, method, "reading")
    tables.watch(hook_placement, "effects_of", "reading")
    tables.watch(compiler, "backend_compile_and_load", "XLA")
    tables.watch(program.Program, "run_from", "XLA")


# --- all of them


def measured(name: str, engine: str, limit: float, double: bool = False) -> dict[str, Any]:
    """The same in a process of its own; what went wrong, if it does."""
    own = [sys.executable, "-m", "benchmarks.real_models", "--one", name, "--engine", engine]
    own += ["--double"] if double else []
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "UNDERTOW_CACHE": "off", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
        out = os.path.join(folder, "out.json")
        try:
            done = subprocess.run([*own, "--json", out], env=environment, capture_output=True, text=True, timeout=limit)
        except subprocess.TimeoutExpired:
            return {"failed": f"not done after {limit:.0f} s"}
        if done.returncode:
            return {"failed": (done.stderr.strip().splitlines() or ["no output"])[-1]}
        with open(out) as file:
            return json.load(file)


def difference(first: dict[str, Any], second: dict[str, Any]) -> str:
    """How far two runs are apart: losses, and the norms that the hook logged."""
    if "failed" in first or "failed" in second:
        return "?"
    pairs = [*zip(first["losses"], second["losses"]), *zip(first["norms"], second["norms"])]
    same = len(first["norms"]) == len(second["norms"])
    return f"{max(abs(a - b) / max(abs(b), 1e-3) for a, b in pairs):.0e}" if same else "other norms"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="models whose names match")
    parser.add_argument("--double", action="store_true", help="compute in float64")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for one run")
    parser.add_argument("--json", help="where results go")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        if options.engine != "torch":
            import undertow

            with undertow.pretend_torch():
                result = run(options.one, options.engine, options.double)
        else:
            result = run(options.one, options.engine, options.double)
        with open(options.json, "w") as file:
            json.dump(result, file)
        return
    print("| model | compile, CPU s | reading | tracing | XLA | programs | one step, ms | from eager | from PyTorch |")
    print("|---|---|---|---|---|---|---|---|---|")
    results = {}
    for name, (package, _) in MODELS.items():
        if not re.search(options.only, name):
            continue
        if find_spec(package) is None:
            print(f"| {name} | {package} is not installed |", flush=True)
            continue
        more = options.limit, options.double
        compiled, eager = measured(name, "undertow.compile", *more), measured(name, "undertow", *more)
        torch = measured(name, "torch", *more) if find_spec("torch") else {"failed": "not installed"}
        results[name] = {"undertow.compile": compiled, "undertow": eager, "torch": torch}
        if "failed" in compiled:
            print(f"| {name} | {compiled['failed'][:300]} |", flush=True)
            continue
        parts, seconds = compiled["parts"], compiled["seconds"]
        cells = [
            name,
            f"{sum(seconds[:2]):.1f}",
            *(f"{parts.get(part, 0):.1f}" for part in ("reading", "tracing", "XLA")),
        ]
        cells.append(str(compiled["programs"]))
        cells += [f"{1000 * min(seconds[2:]):.1f}", difference(compiled, eager), difference(compiled, torch)]
        print("| " + " | ".join(cells) + " |", flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
