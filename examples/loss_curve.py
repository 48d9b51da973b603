"""What the training examples share: their options, the loss of every step, and a line that says how far they are."""

import argparse
import json
import sys
import time


def options(description, **defaults):
    """The command line: one `--name` for each default, and where to write the losses."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    for name, default in defaults.items():
        parser.add_argument("--" + name.replace("_", "-"), type=type(default), default=default, help=" ")
    parser.add_argument("--losses", metavar="FILE", help="write the loss of every step to FILE, as JSON")
    return parser.parse_args()


class LossCurve:
    """Call it with every step's loss. It prints some of them; between those, a terminal shows one changing line."""

    def __init__(self, steps, lines=10):
        self.steps = steps
        self.every = max(1, steps // lines)
        self.losses = []
        self.start = time.perf_counter()

    def __call__(self, loss):
        self.losses.append(loss)
        step = len(self.losses)
        text = f"step {step:>{len(str(self.steps))}}/{self.steps}   loss {loss:.4f}"
        if step == 1 or step % self.every == 0 or step == self.steps:
            print(f"\r{text:<60}" if sys.stdout.isatty() else text, flush=True)
        elif sys.stdout.isatty():
            left = (time.perf_counter() - self.start) / step * (self.steps - step)
            print(f"\r{text}   {left:.0f} s left ", end="", flush=True)

    def save(self, path):
        """Writes all losses to the file `path`, or nothing where there is no path."""
        if path:
            with open(path, "w") as file:
                json.dump(self.losses, file)
