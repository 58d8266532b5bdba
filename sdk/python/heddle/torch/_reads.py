# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What Dynamo reads while it traces a function and has no guard for. A trace is kept only if all of it can be looked at again in another process
(_traces.py).

Dynamo makes a variable of each value that it meets. Those of values that it knows no source for pass through one function of PyTorch:

- a class or a function is looked for by its name again, and has to be the same (_facts.py);
- what one of PyTorch's functions gave for constants is asked for again;
- a plain value is what Dynamo computed of others, if it was made in one of the functions below; otherwise it was read somewhere, and nothing is kept;
- any other object is a reason to keep nothing.
"""
from __future__ import annotations

import dataclasses
import enum
import importlib
import inspect
import os
import sys
import types
from collections.abc import Iterator
from typing import Any

import torch

from ._facts import BUILTIN, PLAIN, Facts, Unknown, is_of_python, of_code, order_of_sets

# Functions of Dynamo, by file, that make variables of what they compute of other variables, and of names and numbers in the code that they trace.
# PyTorch 2.15 has other names for some of those of 2.13.
_COMPUTING = {
    "builder.py": {"SourcelessBuilder.create"},
    "builtin.py": {"BuiltinVariable._binop_handlers.<locals>.create_cmp_op_handlers.<locals>.compare_by_value",
                   "BuiltinVariable._binop_handlers.<locals>.create_cmp_op_handlers.<locals>.handle_is",
                   "BuiltinVariable._binop_handlers.<locals>.create_cmp_op_handlers.<locals>.never", "BuiltinVariable.call_isinstance",
                   "BuiltinVariable._make_handler.<locals>.constant_fold_handler"},
    "constant.py": {"ConstantVariable._nb_binary_impl", "ConstantVariable.nb_floor_divide_impl", "ConstantVariable.nb_true_divide_impl"},
    "dicts.py": {"ConstDictVariable.mp_length", "ConstDictVariable.mp_length_impl", "ConstDictVariable.sq_contains", "ConstDictVariable.sq_contains_impl",
                 "SideEffectsProxyDict.get_value___dict__"},
    "exc.py": {"raise_observed_exception"},
    "functions.py": {"BaseUserFunctionVariable.call_obj_hasattr", "GetSetDescriptorVariable.tp_descr_get_impl",
                     "MemberDescriptorVariable.tp_descr_get_impl", "PolyfilledFunctionVariable.call_function", "UserFunctionVariable.call_obj_hasattr",
                     "WrapperUserFunctionVariable.call_function", "wrap_bound_arg"},
    "lists.py": {"BaseListVariable.sq_length", "BaseListVariable.sq_length_impl", "RangeIteratorVariable.tp_iternext_impl",
                 "RangeVariable.apply_index"},
    "nn_module.py": {"UnspecializedNNModuleVariable.manually_trace_nn_module_getattr"},
    "sets.py": {"BaseSetVariable.sq_contains_impl", "SetVariable.sq_contains", "SetVariable.sq_contains_impl"},
    "symbolic_convert.py": {f"InstructionTranslatorBase.{name}" for name in (
        "BUILD_CONST_KEY_MAP", "BUILD_LIST", "BUILD_MAP", "CHECK_EXC_MATCH", "FORMAT_VALUE", "GET_ITER", "LIST_TO_TUPLE", "MAKE_FUNCTION", "STORE_ATTR",
        "_attach_traceback_to_exception", "_format_value", "_load_attr")},
    "tensor.py": {f"TensorVariable.{name}" for name in ("call_obj_hasattr", "method_attr_device", "method_attr_dtype", "method_attr_ndim",
                                                        "method_attr_shape", "method_dim")},
    "torch.py": {"TorchInGraphFunctionVariable._get_handlers.<locals>.handle_tracing_state_functions"},
    "user_defined.py": {"UserDefinedObjectVariable.call_obj_hasattr", "UserDefinedObjectVariable.var_getattr"},
}
_ASKING = ("torch.py", "TorchInGraphFunctionVariable.call_function")  # calls a function of PyTorch with constants
_ADDRESS = ("builtin.py", "BuiltinVariable.call_id")
_PASSING = {"build", "create", "<lambda>", "<listcomp>", "<dictcomp>"}  # on the way from those


@dataclasses.dataclass
class Reads:
    """Of one trace."""
    named: dict[int, tuple[str, str, Any]] = dataclasses.field(default_factory=dict)  # classes and functions: module, name and value, by address
    asked: list[tuple[Any, list[Any], dict[str, Any], str]] = dataclasses.field(default_factory=list)  # function, arguments, and what it gave
    reason: str | None = None  # why nothing is kept

    def note(self, value: Any, frame: types.FrameType | None) -> None:
        """A value that Dynamo has no source of, and the caller."""
        if self.reason is None and id(value) not in self.named:
            try:
                self._note(value, frame)
            except Exception as wrong:
                self.reason = str(wrong)

    def _note(self, value: Any, frame: types.FrameType | None) -> None:
        kind = type(value)
        if kind in PLAIN:
            self._note_plain(value, frame)
        elif isinstance(value, type):
            self._name(value)
        elif isinstance(value, types.FunctionType):
            self._name(value)
        elif isinstance(value, enum.Enum):
            self._name(kind)
        elif isinstance(value, types.ModuleType):
            if sys.modules.get(value.__name__) is not value:
                raise Unknown(f"Dynamo has no guard for the module {value.__name__}")
        elif kind not in (list, tuple, dict, set, torch.Size) and not (kind.__name__ == "OrderedDict" and not value) \
                and not isinstance(value, (*BUILTIN, torch.finfo, torch.iinfo)):  # of the elements of those, Dynamo makes variables, too
            raise Unknown(f"Dynamo has no guard for an object of {kind.__module__}.{kind.__qualname__}")

    def _note_plain(self, value: Any, frame: types.FrameType | None) -> None:
        while frame is not None and frame.f_code.co_name in _PASSING:
            frame = frame.f_back
        if frame is None:
            raise Unknown("Dynamo has no guard for a value")
        code = frame.f_code
        place = (os.path.basename(code.co_filename), getattr(code, "co_qualname", code.co_name))
        if place == _ASKING:
            scope = frame.f_locals
            arguments = [one.as_python_constant() for one in scope["args"]]
            named = {name: one.as_python_constant() for name, one in scope["kwargs"].items()}
            self.asked.append((scope["self"].value, arguments, named, Facts().exact(value)))
        elif place == _ADDRESS and frame.f_locals["tx"].f_code is inspect.unwrap.__code__:
            pass  # it looks for cycles
        elif place[1] not in _COMPUTING.get(place[0], ()):
            raise Unknown(f"Dynamo has no guard for what {place[1]} in {place[0]}, line {frame.f_lineno}, makes")
        elif place[1].startswith("MemberDescriptor"):
            owner = getattr(frame.f_locals["obj"], "value", None)
            if not isinstance(owner, dataclasses.Field):  # which classes have, and are known by
                raise Unknown(f"Dynamo has no guard for {frame.f_locals['attr_name']} of a {type(owner).__qualname__}")
        elif place[1].startswith("GetSetDescriptor"):
            owner = frame.f_locals["obj_value"]
            if type(owner) not in PLAIN:  # such as the type of a device
                raise Unknown(f"Dynamo has no guard for {frame.f_locals['attr_name']} of a {type(owner).__qualname__}")

    def _name(self, value: Any) -> None:
        if isinstance(value, type) and not is_of_python(value):
            return
        module, name = value.__module__, value.__qualname__.partition(".<locals>")[0]
        if not any(one is value for one in at(module, name)) and value.__qualname__ == "Module.__init__":  # Dynamo has its own in the place of it
            module, name = "torch._dynamo.mutation_guard", "unpatched_nn_module_init"
        if not any(one is value for one in at(module, name)):
            raise Unknown(f"Dynamo has no guard for {module}.{value.__qualname__}, which has no name in other processes")
        self.named[id(value)] = (module, name, value)

    def facts(self) -> list[tuple[str, str, str]]:
        """Of classes and functions. Raises Unknown, also if what was asked for is something else now."""
        if self.reason is not None:
            raise Unknown(self.reason)
        check(self.asked)
        facts = Facts()
        return sorted((module, name, facts.of(value)) for module, name, value in self.named.values())


def check(asked: list[tuple[Any, list[Any], dict[str, Any], str]]) -> None:
    """Raises Unknown if one of these functions does not give what it gave."""
    for function, arguments, named, gave in asked:
        found = Facts().exact(function(*arguments, **named))
        if found != gave:
            raise Unknown(f"{getattr(function, '__name__', function)} gives {found}, and gave {gave}")


def check_named(named: list[tuple[str, str, str]]) -> None:
    facts = Facts()
    for module, name, said in named:
        importlib.import_module(module)
        if not any(facts.of(one) == said for one in at(module, name) if isinstance(one, (type, types.FunctionType))):
            raise Unknown(f"{module}.{name} is something else")


def at(module: str, name: str) -> Iterator[Any]:
    """What is at a name, and the functions around which it is."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = inspect.getattr_static(found, part, None)
    for _ in range(16):
        yield found
        found = next((inner for inner in (vars(found).get("__wrapped__") if hasattr(found, "__dict__") else None, getattr(found, "__func__", None),
                                          getattr(found, "fget", None), getattr(found, "func", None)) if inner is not None), None)
        if found is None:
            return


def codes_at(module: str, name: str) -> set[str]:
    """Of functions there, and of those in them."""
    codes: set[str] = set()
    for one in at(module, name):
        if isinstance(one, types.FunctionType):
            _add_codes(one.__code__, codes)
    return codes


def of_traced(code: types.CodeType) -> str:
    """A digest of code that Dynamo has gone through."""
    return of_code(code) + order_of_sets(code)


def _add_codes(code: types.CodeType, codes: set[str]) -> None:
    codes.add(of_traced(code))
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            _add_codes(one, codes)
