"""A line search for the strong Wolfe conditions: sufficient decrease and a small slope.

First the step grows until an interval must contain such a point, then the interval is narrowed. New points are
the minima of cubics through the ends (Nocedal and Wright, Numerical Optimization, algorithms 3.5 and 3.6).
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any, NamedTuple


class Limits(NamedTuple):
    """When a search succeeds (decrease and slope), and when it gives up (interval length and number of trials)."""

    decrease: float = 1e-4
    flatness: float = 0.9
    shortest: float = 1e-9
    trials: int = 25


USUAL = Limits()


class Point:
    """A point on the line: its step, the loss and gradient there, and the slope along the line."""

    __slots__ = ("t", "loss", "grad", "slope")

    def __init__(self, t: float, loss: float, grad: Any, slope: float = 0.0) -> None:
        self.t, self.loss, self.grad, self.slope = t, loss, grad, slope


def strong_wolfe(
    look: Callable[[float], Point], start: Point, length: float, limits: Limits = USUAL
) -> tuple[Point, int]:
    """Return a good point on the line, and how often the loss was computed.

    look    computes the loss at a step
    start   the loss, gradient and slope at step 0, with the step to try first
    length  the largest element of the direction
    """
    search = _Search(look, Point(0.0, start.loss, start.grad, start.slope), limits)
    ends = search.bracket(start.t)
    found = ends[0] if len(ends) == 1 else search.narrow(ends, length)
    return found, search.trials + 1


class _Search:
    """One search: the conditions for a point, and the trials made after the first one."""

    __slots__ = ("look", "origin", "limits", "trials")

    def __init__(self, look: Callable[[float], Point], origin: Point, limits: Limits) -> None:
        self.look, self.origin, self.limits = look, origin, limits
        self.trials = 0

    def too_high(self, point: Point) -> bool:
        return point.loss > self.origin.loss + self.limits.decrease * point.t * self.origin.slope

    def flat(self, point: Point) -> bool:
        return abs(point.slope) <= -self.limits.flatness * self.origin.slope

    def bracket(self, t: float) -> list[Point]:
        """Return two ends with a good point between them, or one point that is good itself."""
        before, now = self.origin, self.look(t)
        while self.trials < self.limits.trials:
            if self.too_high(now) or (self.trials > 1 and now.loss >= before.loss):
                return [before, now]
            if self.flat(now):
                return [now]
            if now.slope >= 0:
                return [before, now]
            t = cubic_minimum(before, now, now.t + 0.01 * (now.t - before.t), now.t * 10)
            before, now = now, self.look(t)
            self.trials += 1
        return [self.origin, now]

    def narrow(self, ends: list[Point], length: float) -> Point:
        """Return a good point between two ends, or the lower of the ends when the search gives up."""
        low, high = _ordered(ends)
        stuck = False
        while self.trials < self.limits.trials and abs(ends[1].t - ends[0].t) * length >= self.limits.shortest:
            left, right = sorted((ends[0].t, ends[1].t))
            t = cubic_minimum(ends[0], ends[1], left, right)
            margin = 0.1 * (right - left)
            near_an_end = min(right - t, t - left) < margin
            if near_an_end and (stuck or t >= right or t <= left):
                t = right - margin if abs(t - right) < abs(t - left) else left + margin
                stuck = False
            else:
                stuck = near_an_end
            point = self.look(t)
            self.trials += 1
            if self.too_high(point) or point.loss >= ends[low].loss:
                ends[high] = point
                low, high = _ordered(ends)
                continue
            done = self.flat(point)
            if not done and point.slope * (ends[high].t - ends[low].t) >= 0:
                ends[high] = ends[low]
            ends[low] = point
            if done:
                break
        return ends[low]


def _ordered(ends: list[Point]) -> tuple[int, int]:
    """Return the two ends, the one with the lower loss first."""
    return (0, 1) if ends[0].loss <= ends[1].loss else (1, 0)


def cubic_minimum(a: Point, b: Point, least: float, most: float) -> float:
    """Return where the cubic with the losses and slopes of two points is lowest, clipped to two bounds."""
    if a.t > b.t:
        a, b = b, a
    bend = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    discriminant = bend * bend - a.slope * b.slope
    if not discriminant >= 0:
        return (least + most) / 2
    root = sqrt(discriminant)
    t = b.t - (b.t - a.t) * ((b.slope + root - bend) / (b.slope - a.slope + 2 * root))
    return min(max(t, least), most)
