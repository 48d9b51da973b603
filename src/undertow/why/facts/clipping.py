"""Clippings of gradients that come too early: before the backward pass whose gradients they should limit."""

from __future__ import annotations

from collections import defaultdict

from undertow.why.facts.facts import Facts
from undertow.why.places import Place
from undertow.why.trace import ScalingEvent


def clips_by_line(facts: Facts) -> dict[object, list[ScalingEvent]]:
    """Return the clippings of each line."""
    found: dict[object, list[ScalingEvent]] = defaultdict(list)
    for event in facts.trace.scalings:
        if event.kind == "clip" and event.place is not None:
            found[event.place.key].append(event)
    return found


def early_clips(facts: Facts) -> dict[object, Place | None]:
    """Return the lines of clippings that never find a gradient, with the backward after them that a step then uses."""
    found = {}
    for line, events in clips_by_line(facts).items():
        backwards = [_backward_after(facts, event) for event in events]
        if any(event.tensors for event in events) and all(place is not None for place in backwards):
            found[line] = backwards[0]
    return found


def _backward_after(facts: Facts, clip: ScalingEvent) -> Place | None:
    """Return the backward that wrote the first gradient after a clipping, if there was none before and a step used it."""
    found: Place | None = None
    for tensor in clip.tensors:
        written: Place | None = None
        for event in facts.grads_and_updates(tensor):
            if event.time < clip.time:
                if event.kind in ("write", "set"):
                    written = event.place
                elif event.kind == "clear":
                    written = None
            elif written is not None:
                return None  # there was a gradient to clip
            elif event.kind == "write":
                found = found or event.place
            elif event.kind == "step":
                break
    return found
