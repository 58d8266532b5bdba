# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What values of a Python program are, said without addresses, so that it can be compared between processes.

A function is its code with its defaults and what it closes over, a class is all that its dictionary and its bases have, and an object of a class that
is not known here is its class.
"""
from __future__ import annotations

import collections
import enum
import functools
import hashlib
import sys
import types
from collections.abc import Iterable
from typing import Any

import torch

_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), type(NotImplemented), range, slice, torch.dtype, torch.device,
          torch.layout, torch.memory_format, torch.Size)
_BUILTIN = (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, types.MethodWrapperType,
            types.ClassMethodDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType)
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE
_NOT_OF_CLASSES = {"__dict__", "__weakref__", "__doc__", "__annotations__", "__annotate__", "__annotations_cache__", "_abc_impl",
                   "__abstractmethods__", "__firstlineno__", "__static_attributes__", "__slotnames__", "__copyreg__"}  # caches, and what does not run
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


class Unknown(Exception):
    """What a value is cannot be said, or is of no use in another process."""


@functools.lru_cache(maxsize=None)
def of_code(code: types.CodeType) -> str:
    """A digest of all that the code is, with the place where it is from."""
    def constant(one: Any) -> str:
        if isinstance(one, types.CodeType):
            return of_code(one)
        if isinstance(one, (tuple, frozenset)):
            parts = [constant(each) for each in one]
            return f"{type(one).__name__}({', '.join(parts if isinstance(one, tuple) else sorted(parts))})"
        return f"{type(one).__name__}:{one!r}"

    said = repr((code.co_filename, code.co_firstlineno, code.co_qualname if sys.version_info >= (3, 11) else code.co_name, code.co_flags,
                 code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_names, code.co_varnames, code.co_freevars,
                 code.co_cellvars, code.co_code, getattr(code, "co_exceptiontable", b""), constant(code.co_consts)))
    return hashlib.sha256(said.encode(errors="surrogatepass")).hexdigest()


class Facts:
    """What values of this moment are. It keeps what it has said of functions and classes, so it must not be used when these may have changed."""

    def __init__(self) -> None:
        self._said: dict[int, str] = {}
        self._kept: list[Any] = []  # of the addresses in _said
        self._modules: set[int] = set()  # without hooks
        self.codes: set[str] = set()  # of functions

    def _once(self, value: Any, said: str, parts: Iterable[str]) -> str:
        """It may contain itself: then it is its name."""
        known = self._said.get(id(value))
        if known is None:
            self._said[id(value)] = said
            self._kept.append(value)
            known = self._said[id(value)] = f"{said} {hashlib.sha256('|'.join(parts).encode(errors='surrogatepass')).hexdigest()}"
        return known

    def of(self, value: Any, depth: int = 3) -> str:
        """What the value is, with what it contains as far as this many containers within each other."""
        kind = type(value)
        name = f"{kind.__module__}.{kind.__qualname__}"
        if kind in _PLAIN:
            return f"{name}:{value!r}"
        if isinstance(value, enum.Enum):
            return f"{self.of(kind)}.{value.name}"
        if isinstance(value, types.CodeType):
            return of_code(value)
        if isinstance(value, types.FunctionType):
            return self._of_function(value)
        if isinstance(value, type):
            return self._of_class(value)
        if isinstance(value, types.ModuleType):
            if sys.modules.get(value.__name__) is not value:
                raise Unknown(f"the module {value.__name__} has no name in other processes")
            return f"{name}:{value.__name__}:{getattr(value, '__file__', None)}"
        if isinstance(value, _BUILTIN):
            owner = getattr(value, "__self__", None) or getattr(value, "__objclass__", None)
            where = owner.__name__ if isinstance(owner, (type, types.ModuleType)) else type(owner).__qualname__
            return f"{name}:{getattr(value, '__module__', None)}:{where}:{value.__qualname__}"
        if isinstance(value, types.MethodType):
            return f"{name}:{self.of(value.__func__)} of {self.of(value.__self__, 0)}"
        if isinstance(value, (staticmethod, classmethod)):
            return f"{name}:{self.of(value.__func__)}"
        if isinstance(value, property):
            return f"{name}:{[self.of(one) for one in (value.fget, value.fset, value.fdel)]}"
        if isinstance(value, functools.partial):
            return f"{name}:{[self.of(one, depth) for one in (value.func, value.args, value.keywords)]}"
        if isinstance(value, types.CellType):
            return f"{name}:{self._of_cell(value, depth)}"
        if isinstance(value, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
            return f"{name}:{value}"
        if isinstance(value, torch.Tensor):
            return self._of_tensor(value)
        if isinstance(value, (list, tuple, set, frozenset, dict, types.MappingProxyType, collections.deque)):
            return self._of_container(value, name, depth)
        if isinstance(value, torch.nn.Module) and depth > 0:
            return self._of_module(value)
        return f"{name} object" if depth <= 0 else f"{name} object of {self._of_class(kind)}"

    def _of_container(self, value: Any, name: str, depth: int) -> str:
        said = f"{name}[{len(value)}]" if depth <= 0 else f"{self._of_class(type(value))}[{len(value)}]"
        if depth <= 0:
            return said
        if isinstance(value, (dict, types.MappingProxyType)):
            parts = [f"{self.of(key, depth - 1)}: {self.of(one, depth - 1)}" for key, one in value.items()]
        else:
            parts = [self.of(one, depth - 1) for one in value]
            if isinstance(value, (set, frozenset)):
                parts.sort()
        return f"{said}({', '.join(parts)})"

    def _of_tensor(self, value: torch.Tensor) -> str:
        if type(value) not in (torch.Tensor, torch.nn.Parameter):
            raise Unknown(f"a tensor is of the class {type(value).__name__}")
        # Dynamo marks buffers of modules itself, as "unguarded".
        marks = {name: one for name, one in sorted(value.__dict__.items()) if name.startswith("_dynamo") and one != "unguarded"}
        return (f"{type(value).__name__} {value.dtype} {value.device} {value.layout} {value.ndim} {value.requires_grad} {value.is_leaf} "
                f"{torch._C._dispatch_keys(value)} {marks}")

    def _of_module(self, value: torch.nn.Module) -> str:
        """With the names of attributes of the object itself, among which a function may be that stands for the class's own."""
        for one in value.modules():
            if id(one) not in self._modules:
                # Dynamo traces hooks that are there, and has no guards for new ones.
                if any(getattr(one, name, None) for name in _HOOKS):
                    raise Unknown(f"a {type(one).__name__} has hooks")
                self._modules.add(id(one))
                self._kept.append(one)
        return f"{self._of_class(type(value))} with {sorted(vars(value))}"

    def _of_cell(self, cell: types.CellType, depth: int) -> str:
        try:
            value = cell.cell_contents
        except ValueError:
            return "empty"
        return self.of(value, depth - 1)

    def _of_function(self, value: types.FunctionType) -> str:
        def parts() -> Iterable[str]:
            self.codes.add(of_code(value.__code__))
            yield of_code(value.__code__)
            yield self.of(value.__defaults__)
            yield self.of(value.__kwdefaults__)
            if "_dynamo_marked_constant" in value.__dict__:
                raise Unknown(f"what {value.__qualname__} gives is taken as constant, by torch._dynamo.assume_constant_result")
            yield str(sorted(value.__dict__))
            for cell in value.__closure__ or ():
                yield self._of_cell(cell, 2)

        return self._once(value, f"function {value.__module__}.{value.__qualname__} in {value.__globals__.get('__name__')}", parts())

    def _of_class(self, value: type) -> str:
        name = f"class {value.__module__}.{value.__qualname__}"
        if not value.__flags__ & _HEAP_TYPE:
            return name

        def parts() -> Iterable[str]:
            for base in (type(value), *value.__bases__):
                yield self._of_class(base)
            for key, one in sorted(vars(value).items()):
                if key not in _NOT_OF_CLASSES:
                    yield f"{key}={self._of_member(one)}"

        return self._once(value, name, parts())

    def _of_member(self, one: Any) -> str:
        return self.of(one, 1) if isinstance(one, (list, tuple, dict, set, frozenset)) else self.of(one, 0)
