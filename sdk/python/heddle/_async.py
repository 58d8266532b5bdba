# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`await` of a heddle.Call. Imported by the first `await`, since asyncio takes longer to import than all of heddle."""
from __future__ import annotations

import asyncio
import weakref
from typing import Any, Generator, TypeVar

from ._core import Call, _Completions
from ._module import Module


class _Watch:
    """The calls that tasks of one event loop await."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._completions = _Completions()
        self._futures: dict[int, asyncio.Future[None]] = {}
        self._last = 0

    async def wait(self, call: Call) -> None:
        loop = asyncio.get_running_loop()
        self._last += 1
        key, future = self._last, loop.create_future()
        call._notify(self._completions, key)
        if not self._futures:
            loop.add_reader(self._completions.fileno(), self._end)
        self._futures[key] = future
        try:
            await future
        finally:
            self._futures.pop(key, None)
            if not self._futures:
                loop.remove_reader(self._completions.fileno())

    def _end(self) -> None:
        for key in self._completions.take():
            future = self._futures.get(key)
            if future is not None and not future.done():
                future.set_result(None)


_watches: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Watch] = weakref.WeakKeyDictionary()


async def _over(call: Call) -> None:
    """Returns when the call is over."""
    loop = asyncio.get_running_loop()
    watch = _watches.get(loop)
    if watch is None:
        watch = _watches[loop] = _Watch(loop)
    try:
        await watch.wait(call)
    except NotImplementedError:  # the loop watches no descriptors, or the driver does not tell (UnimplementedError)
        while not call.done():
            await asyncio.sleep(0.001)


def await_call(call: Call) -> Generator[Any, Any, Any]:
    """Call.__await__."""
    return _await(call).__await__()


async def _await(call: Call) -> Any:
    if not call.done():
        try:
            await _over(call)
        except asyncio.CancelledError:
            call.cancel()
            raise
    while not call.done():  # another thread reads its results
        await asyncio.sleep(0.001)
    return call.result(0)


_Module = TypeVar("_Module", bound=Module)


def await_module(module: _Module) -> Generator[Any, Any, _Module]:
    """Module.__await__."""
    return _loaded(module).__await__()


async def _loaded(module: _Module) -> _Module:
    pause = 0.001
    while not module._is_loaded(0):
        await asyncio.sleep(pause)
        pause = min(2 * pause, 0.05)
    return module
