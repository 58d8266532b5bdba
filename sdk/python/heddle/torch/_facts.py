# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What values of a Python program are, said without addresses, so that it can be compared between processes.

A function is its code with its defaults and what it closes over, a class is all that its dictionary and its bases have, and an object of a class that
is not known here is its class and its attributes, as far as these are plain. Facts.exact takes values of which nothing may be left out.
"""
from __future__ import annotations

import collections
import contextlib
import dataclasses
import dis
import enum
import functools
import hashlib
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

import torch

PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), type(NotImplemented), range, slice, torch.dtype, torch.device,
          torch.layout, torch.memory_format, torch.Size)
BUILTIN = (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, types.MethodWrapperType,
           types.ClassMethodDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType)
_CONTAINERS = (list, tuple, set, frozenset, dict, types.MappingProxyType, collections.deque)
_OWNERS_IN_C = ("PyCapsule", "pybind11_")  # of functions of C++
_NUMBERS = (bool, int, float, complex, str, bytes)  # of which there can be subclasses
_SAID_BY_REPR: tuple[type, ...] = (torch.finfo, torch.iinfo)
with contextlib.suppress(ImportError):
    import numpy

    _SAID_BY_REPR += (numpy.dtype, numpy.generic)
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE
_NOT_OF_CLASSES = {"__dict__", "__weakref__", "__doc__", "__annotations__", "__annotate__", "__annotations_cache__", "_abc_impl",
                   "__abstractmethods__", "__firstlineno__", "__static_attributes__", "__slotnames__", "__copyreg__"}  # caches, and what does not run
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


class Unknown(Exception):
    """What a value is cannot be said, or is of no use in another process."""


_codes: dict[int, tuple[types.CodeType, str]] = {}  # by address, since code of another file can be equal


def of_code(code: types.CodeType) -> str:
    """A digest of all that the code is, with the place where it is from, but for the order in which it goes through constant sets."""
    known = _codes.get(id(code))
    if known is None:
        known = _codes[id(code)] = (code, _of_code(code))
    return known[1]


def _of_code(code: types.CodeType) -> str:
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


def order_of_sets(code: types.CodeType) -> str:
    """The order of its constant sets, which differs between processes, if it does more with them than to ask what is in them."""
    if not any(isinstance(one, frozenset) for one in code.co_consts):
        return ""
    instructions = [one for one in dis.get_instructions(code) if one.opname not in ("CACHE", "EXTENDED_ARG")]
    return "".join(repr(list(one.argval)) for one, after in zip(instructions, instructions[1:])
                   if isinstance(one.argval, frozenset) and after.opname != "CONTAINS_OP")


def is_of_python(value: type) -> bool:
    """Whether a class is not written in C, so that it can be changed."""
    return bool(value.__flags__ & _HEAP_TYPE)


@dataclasses.dataclass
class _Node:
    value: Any  # it is kept, and so is its address
    said: str
    number: int
    lowest: int  # of those that it contains and that contain it
    text: str = ""
    digest: str = ""


def _digest(nodes: list[_Node]) -> None:
    """Of all that contain each other."""
    def hashed(text: str, of: dict[str, str]) -> str:
        for number, said in of.items():
            text = text.replace(number, said)
        return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()

    def numbers(saying: Callable[[_Node], str]) -> dict[str, str]:
        return {f"\0{node.number}\0": saying(node) for node in nodes}

    named = numbers(lambda node: node.said)
    contained = numbers(lambda node: f"{node.said} {hashed(node.text, named)}")
    own = [hashed(node.text, contained) for node in nodes]
    together = "|".join(sorted(own))
    for node, digest in zip(nodes, own):
        node.digest = f"{node.said} {hashed(digest + together, {})}"


def _attributes(value: Any) -> dict[str, Any]:
    """Those of the object itself, without the address that Dynamo keeps in what it wraps or leaves alone, such as after torch.compiler.disable."""
    found = dict(getattr(value, "__dict__", None) or {})
    if "_torchdynamo_wrapper_id" in found:
        found["_torchdynamo_wrapper_id"] = found["_torchdynamo_wrapper_id"] == id(value)
    return found


class Facts:
    """What values of this moment are. It keeps what it has said of functions and classes, so it must not be used when these may have changed."""

    def __init__(self) -> None:
        self._nodes: dict[int, _Node] = {}  # functions and classes by their addresses
        self._open: list[_Node] = []  # those without digests
        self._inner: _Node | None = None  # the innermost that is looked at
        self._kept: list[Any] = []  # of the addresses in _modules
        self._modules: set[int] = set()  # without hooks
        self.codes: set[str] = set()  # of functions

    def _once(self, value: Any, said: str, parts: Iterable[str]) -> str:
        """Of a function or a class. Those that contain each other get digests together (Tarjan's strongly connected components), so that it does not matter
        where one began; until then, they are numbers."""
        node = self._nodes.get(id(value))
        if node is None:
            node = self._nodes[id(value)] = _Node(value, said, len(self._nodes), len(self._nodes))
            self._open.append(node)
            outer, self._inner = self._inner, node
            node.text = "|".join(parts)
            self._inner = outer
            if node.lowest == node.number:
                first = self._open.index(node)
                _digest(self._open[first:])
                del self._open[first:]
            if outer is not None:
                outer.lowest = min(outer.lowest, node.lowest)
        elif not node.digest and self._inner is not None:
            self._inner.lowest = min(self._inner.lowest, node.number)
        return node.digest or f"\0{node.number}\0"

    def of(self, value: Any, depth: int = 3) -> str:
        """What the value is, with what it contains as far as this many containers within each other."""
        kind = type(value)
        name = f"{kind.__module__}.{kind.__qualname__}"
        if kind in PLAIN:
            return f"{name}:{value!r}"
        if isinstance(value, enum.Enum):
            return f"{self.of(kind)}.{value.name}={self.of(value._value_, min(depth, 1))}"
        if isinstance(value, types.CodeType):
            return of_code(value)
        if isinstance(value, types.FunctionType):
            return self._of_function(value)
        if isinstance(value, type):
            return self._of_class(value)
        if isinstance(value, types.ModuleType):
            if isinstance(value, torch._ops._OpNamespace) and getattr(torch.ops, value.name) is value:
                return f"{name}:{value.name}"
            if sys.modules.get(value.__name__) is not value:
                raise Unknown(f"the module {value.__name__} has no name in other processes")
            return f"{name}:{value.__name__}:{getattr(value, '__file__', None)}"
        if isinstance(value, BUILTIN):
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
            return f"{name}:{[self.of(one, max(depth, 1)) for one in (value.func, value.args, value.keywords)]}"
        if isinstance(value, types.CellType):
            return f"{name}:{self._of_cell(value, depth)}"
        if isinstance(value, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
            return f"{name}:{value}"
        if isinstance(value, torch.Tensor):
            return self._of_tensor(value)
        if isinstance(value, _CONTAINERS):
            return self._of_container(value, name, depth)
        if isinstance(value, torch.nn.Module) and depth > 0:
            return self._of_module(value)
        return self._of_object(value, name, depth)

    def exact(self, value: Any, depth: int = 8) -> str:
        """Raises Unknown if anything of the value would be left out."""
        if isinstance(value, _CONTAINERS) and type(value) is not torch.Size:
            if depth <= 0:
                raise Unknown(f"a {type(value).__name__} has too many others in it")
            inner = (*value.keys(), *value.values()) if isinstance(value, (dict, types.MappingProxyType)) else value
            return f"{self.of(value, 1)}({', '.join([self.exact(one, depth - 1) for one in inner])})"
        if isinstance(value, functools.partial):
            inner = (value.func, value.args, value.keywords, vars(value))
            return f"{self.of(value)}({', '.join([self.exact(one, depth - 1) for one in inner])})"
        if isinstance(value, types.MethodType) or (isinstance(value, (types.BuiltinFunctionType, types.MethodWrapperType))
                                                   and not isinstance(value.__self__, (type(None), type, types.ModuleType))
                                                   and not type(value.__self__).__name__.startswith(_OWNERS_IN_C)):
            raise Unknown(f"a method of a {type(value.__self__).__qualname__}")
        if not isinstance(value, (*PLAIN, *_NUMBERS, *BUILTIN, *_SAID_BY_REPR, enum.Enum, types.CodeType, types.FunctionType, type, types.ModuleType,
                                  torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
            raise Unknown(f"a {type(value).__module__}.{type(value).__qualname__}")
        return self.of(value)

    def _of_object(self, value: Any, name: str, depth: int) -> str:
        kind = type(value)
        for base in _NUMBERS:
            if isinstance(value, base):
                return f"{name}:{base.__repr__(value)} of {self._of_class(kind)} with {self._of_attributes(value, depth)}"
        if isinstance(value, _SAID_BY_REPR):
            return f"{name}:{value!r}"
        if isinstance(value, dataclasses.Field):
            inner = (value.default, value.default_factory, value.init, value.compare, value.kw_only)
            return f"{name}:{value.name} {[self.of(one, 0) for one in inner]}"
        if depth <= 0:
            return f"{name} object"
        return f"{name} object of {self._of_class(kind)} with {self._of_attributes(value, depth)}"

    def _of_attributes(self, value: Any, depth: int) -> str:
        """Those of the object itself, also in slots."""
        if isinstance(value, torch.nn.Module):
            return ""
        found = _attributes(value)
        for one in type(value).__mro__:
            for key, member in vars(one).items():
                if isinstance(member, types.MemberDescriptorType):
                    try:
                        found[key] = member.__get__(value)
                    except AttributeError:  # it has none
                        continue
        return f"{{{', '.join(f'{key}: {self.of(one, min(depth - 1, 1))}' for key, one in sorted(found.items()) if isinstance(key, str))}}}"

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
            if sys.version_info < (3, 14):  # later, they are code, which is run when they are asked for
                yield str([(key, self.of(one, 0) if isinstance(one, (str, int)) else getattr(one, "__qualname__", None) or type(one).__qualname__)
                           for key, one in value.__annotations__.items()])
            if "_dynamo_marked_constant" in value.__dict__:
                raise Unknown(f"what {value.__qualname__} gives is taken as constant, by torch._dynamo.assume_constant_result")
            yield str([(key, self.of(one, 0)) for key, one in sorted(_attributes(value).items())])
            for cell in value.__closure__ or ():
                yield self._of_cell(cell, 2)

        return self._once(value, f"function {value.__module__}.{value.__qualname__} in {value.__globals__.get('__name__')}", parts())

    def _of_class(self, value: type) -> str:
        name = f"class {value.__module__}.{value.__qualname__}"
        if not is_of_python(value):
            return name

        def parts() -> Iterable[str]:
            for base in (type(value), *value.__bases__):
                yield self._of_class(base)
            for key, one in sorted(vars(value).items()):
                if key not in _NOT_OF_CLASSES:
                    yield f"{key}={self.of(one, 2 if isinstance(one, (list, tuple, dict, set, frozenset)) else 1)}"

        return self._once(value, name, parts())
