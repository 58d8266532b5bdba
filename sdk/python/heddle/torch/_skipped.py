# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Says aloud what Dynamo does not hand to this backend: functions that it cannot trace, and lines at which it ends a graph. PyTorch runs these, and says so
in no warning."""
from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Sequence
from types import CodeType, FrameType
from typing import Any

import torch

from ._breaks_places import is_users
from ._records import breaks_warned, logger

_RESUMED = re.compile(r"^torch_dynamo_resume_in_(?P<name>.*)_at_(?P<line>\d+)$")
_seen = 0  # graph breaks of the process before the compilation that goes on


def install() -> None:
    """Dynamo calls back when it begins and when it is done with a function, until torch._dynamo.reset()."""
    # As torch._dynamo.callback.on_compile_end, but the callback is also called if there is a failure.
    from torch._dynamo.callback import callback_handler

    if _END not in callback_handler.end_callbacks:
        callback_handler.register_start_callback(_BEGIN)
        callback_handler.register_end_callback(_END)


def _begin(_: Any) -> None:
    global _seen
    _seen = len(torch._dynamo.utils.graph_break_reasons)


def _end(_: Any) -> None:
    from ._backend import backend

    try:
        failure = sys.exc_info()[1]
        found = [(str(one.reason), one.user_stack) for one in torch._dynamo.utils.graph_break_reasons[_seen:]]
        if isinstance(failure, torch._dynamo.exc.Unsupported):  # other exceptions are raised, or begin the trace again
            found.append((str(failure), getattr(failure, "real_stack", None) or []))
        code = _code_of(backend, sys._getframe(1)) if found else None
        for reason, stack in found:
            if code is not None:
                _warn(code, reason, stack, failure is not None)
    except Exception as wrong:  # Dynamo must not see it
        logger.debug("a graph break is not named: %s", wrong)


# Where a compiled function computes gradients after a graph break, Dynamo would trace these, too, and wait for the lock that it holds.
_BEGIN, _END = torch.compiler.disable(_begin), torch.compiler.disable(_end)


def _innermost(function: Any) -> Any:
    """The backend in Dynamo's wrappers of it."""
    for _ in range(8):
        inner = getattr(function, "_torchdynamo_orig_backend", None) or getattr(function, "compiler_fn", None)
        if inner is None:
            break
        function = inner
    return function


def _code_of(backend: Any, frame: FrameType | None) -> CodeType | None:
    """The function that is compiled for this backend; None if it is for another one."""
    while frame is not None and not (frame.f_code.co_name == "_compile" and "compiler_fn" in frame.f_locals and "code" in frame.f_locals):
        frame = frame.f_back
    if frame is None or _innermost(frame.f_locals["compiler_fn"]) is not backend:
        return None
    code: CodeType = frame.f_locals["code"]
    return code


def _warn(code: CodeType, text: str, stack: Sequence[Any], is_whole: bool) -> None:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    reason = lines[0] if lines else "no reason is known"
    more = next((line.removeprefix("Explanation:").strip() for line in lines if line.startswith("Explanation:")), "")
    mine = [one for one in stack if is_users(one.filename)]
    place = f"{mine[-1].filename}:{mine[-1].lineno}" if mine else f"{code.co_filename}:{code.co_firstlineno}"
    if (code, place, reason) in breaks_warned:
        return
    breaks_warned.add((code, place, reason))
    rest = _RESUMED.match(code.co_name)
    function = f"the rest of {rest['name']} after line {rest['line']}" if rest else code.co_name
    what = f"PyTorch runs {function}, which Dynamo cannot trace" if is_whole else f"graph break in {function}, PyTorch runs the line"
    warnings.warn(f"heddle.torch: {what} ({place}): {reason}" + (f": {more}" if more else "") + "; heddle.torch.report() tells what to write instead",
                  stacklevel=2)
