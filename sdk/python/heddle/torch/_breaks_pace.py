# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which calls are observed, so that observing them takes a fixed share of their time. Nothing here imports PyTorch."""
from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Callable

SHARE = 0.01  # of the time of a function's calls, which observing some of them may take
FIRST = 16  # calls of each graph, all of which are observed: compiling it took longer
DEEP = 8  # one in so many observed calls is observed deeply, where that would take too long in each
UNSEEN = 2.0  # what an observation takes in all, as a multiple of what it can time of itself: it empties caches, and PyTorch has to enter Python
_LAST = 15  # observations of which medians are taken
_MOST = 1 << 20


class Pace:
    """Chooses the calls of one function. A deep observation counts reads of the host and bytes as well, a light one takes times only.

    Times are in nanoseconds. `draw` gives numbers from 0 up to 1. After the first calls, each call is observed with the same probability, whether or not
    those before it were, so that a program's own rhythm cannot make some of its calls be observed more often than others.
    """

    def __init__(self, draw: Callable[[], float]) -> None:
        self._draw = draw
        self._times: deque[int] = deque(maxlen=_LAST)
        self._costs: dict[bool, deque[int]] = {deep: deque(maxlen=_LAST) for deep in (False, True)}
        self.chosen = 0

    def note(self, cost: int, time: int, deep: bool) -> None:
        """What one observation took of its own, and the call without it."""
        self._costs[deep].append(cost)
        self._times.append(time)

    def stride(self, switch: float = 0.0) -> float:
        """One in so many calls is to be observed. `switch` is what it takes to begin and end counting reads, which deep observations need if not all are."""
        if not self._times:
            return 1.0
        time = max(1.0, statistics.median(self._times))
        return max(1.0, UNSEEN * self._cost(switch) / (SHARE * time))

    def _cost(self, switch: float) -> float:
        deep, light = (statistics.median(some) if some else None for some in (self._costs[True], self._costs[False]))
        if deep is None:
            return light or 0.0
        if self._all_deep():
            return deep
        return ((DEEP - 1) * (deep if light is None else light) + deep + switch) / DEEP

    def _all_deep(self) -> bool:
        deep = self._costs[True]
        return not deep or not self._times or UNSEEN * statistics.median(deep) <= SHARE * statistics.median(self._times)

    def next(self, switch: float = 0.0) -> tuple[int, bool]:
        """For a call that is observed: after how many calls the next one is, and whether this one is observed deeply."""
        self.chosen += 1
        if self.chosen <= FIRST:
            return 1, True
        deep = self._all_deep() or self.chosen % DEEP == 0
        stride = self.stride(switch)
        if stride <= 1.0:
            return 1, deep
        return min(_MOST, 1 + int(math.log1p(-self._draw()) / math.log1p(-1.0 / stride))), deep
