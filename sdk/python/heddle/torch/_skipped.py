# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Says aloud what Dynamo does not hand to this backend: functions that it cannot trace, and lines at which it ends a graph. PyTorch runs these, and says so
in no warning."""
from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Sequence
from types import CodeType
from typing import Any

import torch

from ._breaks_hints import DDP
from ._breaks_places import is_ddps, is_optimizers, is_pytorchs_own, is_users
from ._records import breaks_warned, logger
from ._tracing import code_of

_RESUMED = re.compile(r"^torch_dynamo_resume_in_(?P<name>.*)_at_(?P<line>\d+)$")
_seen = 0  # graph breaks of the process before the compilation that goes on


def install() -> None:
    """Dynamo calls back when it begins and when it is done with a function, until torch._dynamo.reset(), after which this is called again."""
    # As torch._dynamo.callback.on_compile_end, but the callback is also called if there is a failure.
    from torch._dynamo.callback import callback_handler

    if _end not in callback_handler.end_callbacks:
        callback_handler.register_start_callback(_begin)
        callback_handler.register_end_callback(_end)


@torch.compiler.disable  # type: ignore[untyped-decorator]
def _begin(_: Any) -> None:
    global _seen
    _seen = len(torch._dynamo.utils.graph_break_reasons)


@torch.compiler.disable  # type: ignore[untyped-decorator]
def _end(_: Any) -> None:
    try:
        failure = sys.exc_info()[1]
        found = [(str(one.reason), one.user_stack) for one in torch._dynamo.utils.graph_break_reasons[_seen:]]
        if isinstance(failure, torch._dynamo.exc.Unsupported):  # other exceptions are raised, or begin the trace again
            found.append((str(failure), getattr(failure, "real_stack", None) or []))
        code = code_of(sys._getframe(1)) if found else None
        if code is not None and failure is not None and is_pytorchs_own(code, sys._getframe(1)):
            return
        for reason, stack in found:
            if code is not None:
                _warn(code, reason, stack, failure is not None)
    except Exception as wrong:  # Dynamo must not see it
        logger.debug("a graph break is not named: %s", wrong)


def _warn(code: CodeType, text: str, stack: Sequence[Any], is_whole: bool) -> None:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    reason = lines[0] if lines else "no reason is known"
    more = next((line.removeprefix("Explanation:").strip() for line in lines if line.startswith("Explanation:")), "")
    mine = [one for one in stack if is_users(one.filename)]
    if not mine and stack and is_optimizers(stack[-1].filename) and "graph_break()" in reason:
        return  # an optimizer's step is compiled by itself, and PyTorch ends the graph of what surrounds it, in which there is nothing
    if is_ddps(stack[-1].filename if stack else "", text):
        _warn_once((None, "", "DistributedDataParallel"), f"PyTorch runs what DistributedDataParallel does before and after forward; {DDP}")
        return
    if reason.startswith("generic_jump"):
        reason = "the branch depends on the value of a tensor"
    place = f"{mine[-1].filename}:{mine[-1].lineno}" if mine else f"{code.co_filename}:{code.co_firstlineno}"
    rest = _RESUMED.match(code.co_name)
    function = f"the rest of {rest['name']} after line {rest['line']}" if rest else code.co_name
    what = f"PyTorch runs {function}, which Dynamo cannot trace" if is_whole else f"graph break in {function}, PyTorch runs the line"
    _warn_once((code, place, reason), f"{what} ({place}): {reason}" + (f": {more}" if more else "") + "; heddle.torch.report() tells what to write instead")


def _warn_once(key: tuple[CodeType | None, str, str], text: str) -> None:
    if key not in breaks_warned:
        breaks_warned.add(key)
        warnings.warn(f"heddle.torch: {text}", stacklevel=3)
