# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What to write instead of code that breaks graphs. PyTorch's own hints often say only that a break is fundamental.

`tests/torch/planted_breaks` has code for the usual kinds, and follows these hints.
"""
from __future__ import annotations

import re

from ._breaks_places import is_ddps, is_optimizers

_KEEP = ("keep it a tensor: operators take tensors of one element in the place of numbers. A number that only the program outside needs can be read "
         "after the compiled function returned")
_WHERE = ("compute both sides and choose with torch.where(condition, a, b), or give both as functions to torch.cond. A branch for the sake of "
          "errors can be torch._assert_async(condition, \"message\"), which PyTorch drops without a message")
_COUNT = ("keep the shape: choose elements with torch.where(mask, x, 0) and count them with mask.sum(), instead of taking them out. "
          "torch._dynamo.config.capture_dynamic_output_shape_ops = True traces it, if the backend can have such shapes")
_BEFORE = ("call it before the compiled function, and pass the result as an argument, or keep it in a global or an attribute; if it depends on values of tensors, wrap it "
           "as an operator with torch.library.custom_op and register_fake")
_AFTER = ("return the value and do this after the compiled function returned")
_MASK = ("use a mask instead of a slice: torch.where(torch.arange(n) < end, x, 0); or pass the end as an int, which becomes a symbol")

_CLASS = "define the class outside of the function"
_SCRIPT = "call the Python function or module, without torch.jit: torch.compile takes the place of TorchScript"

# By PyTorch's codes. The same kind can have several.
_INSTEAD = {
    "GB0003": "write a function that returns a list, and compile that, or compile the functions that the generator calls",
    "GB0014": "torch._dynamo.config.allow_rnn = True traces the layer as its operators; compiling then takes longer with each step. Otherwise call it between compiled functions",
    "GB0015": "use a dense tensor or a mask in the compiled function, and convert it before",
    "GB0025": "remove the call of graph_break()",
    "GB0033": _KEEP,
    "GB0034": "torch._assert_async(condition, \"message\") asserts on the device, inside of the graph, and is dropped without a message; or assert after the compiled function returned",
    "GB0035": _WHERE,
    "GB0036": _COUNT,
    "GB0037": _COUNT,
    "GB0038": _MASK,
    "GB0039": ("what the failed guards name (see the recompilations) changes with every call: pass numbers that change as tensors, mark sizes that change with "
               "torch._dynamo.mark_dynamic(x, dim), and do not read attributes that change in the compiled function"),
    "GB0055": ("pass what is no tensor or number, such as a torch.Generator, to operators outside of the compiled function only; random numbers without generator= are "
               "traced, after torch.manual_seed outside"),
    "GB0064": "what PyTorch says is wrong with the call is an error in eager mode, too, for these shapes or types: correct the call",
    "GB0066": "move the break's cause out of the context manager, or enter the manager outside of the compiled function",
    "GB0070": "index with torch.index_select, or stack the list once, outside of the compiled function",
    "GB8977": _CLASS,
    "GB0075": _CLASS,
    "GB0087": "give the operator a function for its result's shape, with register_fake",
    "GB0090": "say which shape the result has, with @OPERATOR.register_fake, a function that returns torch.empty_like(x) or the like",
    "GB0100": ("register the hook before the compiled function is called, on a parameter or an input; a handle that stays in the function can be kept in a "
               "local name"),
    "GB0097": "return the value, and append it to the queue after the compiled function returned",
    "GB0098": "the function, or a function that calls it, has the mark torch.compiler.disable: remove the mark, or call the function before or after the compiled one",
    "GB0099": "the function, or a function that calls it, has the mark torch.compiler.disable: remove the mark, or call the function before or after the compiled one",
    "GB0105": "torch._dynamo.config.trace_numpy = True, or operators of PyTorch",
    "GB0109": _KEEP,
    "GB0123": "return the loss, and call backward() after the compiled function returned: its backward pass is compiled with it",
    "GB0124": _KEEP + ". torch._dynamo.config.capture_scalar_outputs = True keeps the number in the graph, if the backend can",
    "GB0126": "take a slice, x[:n], or make a new tensor with torch.zeros or torch.cat; sizes of existing tensors do not change in a graph",
    "GB0127": "take a slice, x[:n], or make a new tensor with torch.zeros or torch.cat; sizes of existing tensors do not change in a graph",
    "GB0128": "copy the values with copy_(), or return the new tensor",
    "GB0170": _WHERE,
    "GB0171": "make the message constant: assert condition, \"text\"; or torch._check(condition)",
    "GB0179": "copy before the compiled function, once; state_dict() and load_state_dict() copy only the values",
    "GB0291": ("log after the compiled function returned; or torch.compiler.config or torch._dynamo.config.ignore_logging_functions.add(logging.Logger.info) leaves the "
               "line out while compiled"),
    "GB0294": "use operators of PyTorch: NumPy's functions are traced only where PyTorch has the same; otherwise compute it before the compiled function",
    "GB0296": "pass it only tensors, constants and formatted strings, such as f\"{x.shape}\" in the place of x.shape; or call it after the compiled function returned",
    "GB0357": _SCRIPT,
    "GB0374": "use a dense tensor in the compiled function, or make the sparse one before it and multiply outside",
    "GB4198": "use x.clone() of a tensor; copy a module before the compiled function, once",
    "GB4695": _SCRIPT,
    "GB5976": "compare addresses outside of the compiled function",
    "GB7650": "draw random numbers outside of the compiled function, or use torch.rand and others without generator= in it, after torch.manual_seed outside",
}

_PRINT = ("print after the compiled function returned, and return what to print; or torch._dynamo.config.reorderable_logging_functions.add(print) moves printing "
          "behind the graph, if what it prints is tensors, constants and formatted strings, such as f\"{x.shape}\"")
# torch.optim calls graph_break() in step(), so that no optimizer is traced together with what calls it.
_OPTIMIZER = ("nothing, if the optimizer's step is what is compiled: it is a graph of its own, and the break costs nothing. To have it in one graph with other code, "
              "call PyTorch's function of the update, such as torch.optim.adamw.adamw, imported from its module")
DDP = "compile the module that it wraps: DistributedDataParallel(torch.compile(module, ...)) has the same hooks, and breaks no graph"


def for_break(code: str, kind: str, reason: str, context: str, file: str = "") -> str:
    """What to write instead; empty if only PyTorch's hints are known. `file` is that of the innermost line."""
    about = f"{reason} {context}"
    if code == "GB0025" and is_optimizers(file):
        return _OPTIMIZER
    if is_ddps(file, about):
        return DDP
    if "`print`" in about:
        return _PRINT
    if "module: _warnings" in context or "module: warnings" in context:
        return "warn after the compiled function returned"
    if "__build_class__" in about:  # in PyTorch 2.11 with the code of any function that Dynamo does not trace
        return _CLASS
    if "no fake impl" in about:
        return _INSTEAD["GB0090"]
    if "allow_rnn" in about:  # since PyTorch 2.15 with the code of any break that Dynamo has put off
        return _INSTEAD["GB0014"]
    found = _INSTEAD.get(code, "")
    if found:
        return found
    if code in ("GB0007", "GB0008", "GB0009", "GB0059", "GB0147", "GB0156", "GB0177"):
        return _BEFORE
    if "is not a Python constant" in about or "data-dependent" in about.lower():
        return _KEEP
    return ""


def for_guard(guard: str) -> str:
    """What avoids that a function is compiled again since this guard failed; empty if nothing is known."""
    if re.search(r"size mismatch|stride mismatch|\.size\(\)\[|\bs\d+\b", guard):
        return "mark the dimension before the first call, torch._dynamo.mark_dynamic(x, dim), or compile with dynamic=True"
    if re.match(r"___stack\d+ == ", guard):
        return "a number that is read of a tensor at the break before is a constant of this graph: keep it a tensor, which removes the break as well"
    if re.search(r" == -?\d+(\.\d+)?$", guard):
        return "a number of Python is a constant of the graph: pass it as a tensor, or keep it the same"
    if re.search(r" == (['\"].*['\"]|True|False|None)$", guard, re.DOTALL):
        return "text, bools and None are constants of the graph: each value has a graph of its own; keep it the same, or compile a function for each"
    if "grad_mode" in guard or "GRAD_MODE" in guard or "requires_grad" in guard:
        return "training and inference are compiled apart; call the function in one mode, under torch.no_grad() or outside, always in the same way"
    if "dtype mismatch" in guard or "dispatch key" in guard:
        return "give arguments one type and one device"
    if "___check_obj_id" in guard or "___check_type_id" in guard:
        return "another object is used in the place of the one that was there: keep it, or pass what differs as a tensor"
    return ""


def for_fallback(op: str, reason: str) -> str:
    """What to write instead of an operator that a backend does not compile; empty if nothing is known."""
    namespace, _, name = op.partition(".")
    if "complex" in reason:
        return "compute with real and imaginary parts as two real tensors: (a + bi)(c + di) is (ac - bd) + (ad + bc)i"
    if namespace not in ("aten", "prims"):
        return "write it with operators of PyTorch, which are fused with their neighbors, or register a decomposition or a Triton kernel with torch.library.triton_op"
    if name.startswith(("linalg_", "_linalg_", "cholesky", "triangular_solve", "lu_")):
        return "if the matrix does not change with every call, compute this before the compiled function and pass the result"
    if name.startswith(("nonzero", "masked_select", "unique")):
        return "keep the shape: choose elements with torch.where(mask, x, 0) and count them with mask.sum(), instead of taking them out"
    if name.startswith(("sort", "topk")):
        return "if only the largest or smallest value is needed, use amax or amin"
    return ""
