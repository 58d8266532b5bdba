# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`await` of a heddle.Call. Imported by the first `await`, since asyncio takes longer to import than all of heddle."""
from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Generator

from ._core import Call

_THREADS = 32
_pool: tuple[int, ThreadPoolExecutor] | None = None
_lock = threading.Lock()


def _executor() -> ThreadPoolExecutor:
    import os

    global _pool
    with _lock:
        if _pool is None or _pool[0] != os.getpid():  # threads do not survive a fork
            _pool = (os.getpid(), ThreadPoolExecutor(_THREADS, "heddle-wait"))
        return _pool[1]


def _wait(call: Call, over: Callable[[], None]) -> None:
    main = threading.main_thread()
    while not call._wait(0.05):
        if not main.is_alive():  # the interpreter ends, and waits for this thread
            return
    over()


def notify(call: Call, over: Callable[[], None]) -> None:
    """Calls `over` on another thread as soon as the call is over. The only part that knows how this is found out."""
    _executor().submit(_wait, call, over)


def await_call(call: Call) -> Generator[Any, Any, Any]:
    """Call.__await__."""
    return _await(call).__await__()


async def _await(call: Call) -> Any:
    if not call.done():
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()

        def end() -> None:
            if not future.done():
                future.set_result(None)

        def over() -> None:
            try:
                loop.call_soon_threadsafe(end)
            except RuntimeError:  # the loop is closed, so nobody waits any more
                pass

        notify(call, over)
        try:
            await future
        except asyncio.CancelledError:
            call.cancel()
            raise
    return call.result(0)
