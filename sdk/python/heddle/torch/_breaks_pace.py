# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which calls are observed, so that observing them takes a fixed share of their time. Nothing here imports PyTorch."""
from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

SHARE = 0.005  # of the time of a function's calls, which observing some of them may take
SHORT = 200_000  # nanoseconds: of shorter calls there are many, so fewer of them are enough
SHARE_OF_SHORT = 0.002
FIRST = 16  # calls of each graph, all of which are observed: compiling it took longer
DEEP = 8  # one in so many observed calls is observed deeply, where that would take too long in each
UNSEEN = 2.0  # what an observation takes in all, as a multiple of what it can time of itself: it empties caches, and PyTorch has to enter Python
_LAST = 15  # observations of which medians are taken
_WEIGH = 8  # observations after which it is seen anew how many there may be
_MOST = 1 << 20


def _median(some: deque[int]) -> int:
    return sorted(some)[len(some) // 2]


class Pace:
    """Chooses the calls of one function. A deep observation counts reads of the host and bytes as well, a light one takes times only.

    Times are in nanoseconds. `draw` gives numbers from 0 up to 1. After the first calls, each call is observed with the same probability, whether or not
    those before it were, so that a program's own rhythm cannot make some of its calls be observed more often than others.
    """

    def __init__(self, draw: Callable[[], float]) -> None:
        self._draw = draw
        self._times: deque[int] = deque(maxlen=_LAST)
        self._costs: dict[bool, deque[int]] = {deep: deque(maxlen=_LAST) for deep in (False, True)}
        self._gaps: list[int] = []
        self.chosen = 0
        self.stride = 1.0
        self.all_deep = True

    def note(self, cost: int, time: int, deep: bool) -> None:
        """What one observation took of its own, and the call without it."""
        self._costs[deep].append(cost)
        self._times.append(time)

    def next(self, switch: int = 0) -> tuple[int, bool]:
        """For a call that is observed: after how many calls the next one is, and whether this one is observed deeply. `switch` is what it takes to begin
        and end counting reads, which deep observations need if not all are."""
        self.chosen += 1
        if self.chosen < FIRST:
            return 1, True
        if not self._gaps:  # the chances are looked at now and then, which takes longer than the rest of an observation
            self._weigh(switch)
        return self._gaps.pop(), self.all_deep or self.chosen % DEEP == 0

    def _weigh(self, switch: int) -> None:
        if self._times:
            time = _median(self._times)
            allowed = max(1.0, (SHARE_OF_SHORT if time < SHORT else SHARE) * time / UNSEEN)
            deep = _median(self._costs[True] or self._costs[False])
            light = _median(self._costs[False] or self._costs[True])
            self.all_deep = deep <= allowed
            self.stride = max(1.0, (deep if self.all_deep else ((DEEP - 1) * light + deep + switch) / DEEP) / allowed)
        if self.stride <= 1.0:
            self._gaps = [1] * _WEIGH
        else:
            scale = math.log1p(-1.0 / self.stride)
            self._gaps = [min(_MOST, 1 + int(math.log1p(-self._draw()) / scale)) for _ in range(_WEIGH)]
