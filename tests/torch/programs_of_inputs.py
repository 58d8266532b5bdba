# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A program whose functions depend on a number in a file, in as many ways as there are for Dynamo to read something: traces_test.py runs it for
several numbers, in processes that are otherwise the same.

    programs_of_inputs.py FILE [NAME ...]

For each function it prints its name, whether its trace was found and saved, and whether the compiled function computes what the function computes."""
import abc
import collections
import contextvars
import dataclasses
import decimal
import enum
import functools
import inspect
import itertools
import json
import logging
import math
import operator
import os
import pathlib
import random
import re
import statistics
import sys
import threading
import time
import types
import unittest.mock
import warnings
import weakref

import numpy
import torch
from torch import nn
from torch.nn import functional

import heddle.torch
from torch._dynamo.utils import counters

N = int(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
CASES = {}
HERE = sys.modules[__name__]


def case(function):
    CASES[function.__name__] = function
    return function


def around(value):
    def inner(x):
        return x * value
    return inner


def around_twice(value):
    inner = around(value)

    def outer(x):
        return inner(x) + 1
    return outer


def by(x, value=1.0, *, other=0.0):
    return x * value + other


class Plain:
    def __init__(self, value):
        self.value = value

    def scaled(self, x):
        return x * self.value


class Slots:
    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


class Number(int):
    pass


class Text(str):
    pass


# What the program sets at run time.
class Settings:
    scale = 1.0
    nested = Plain(1.0)
    table = {}
    partial = functools.partial(by, value=1.0)
    items = ()


class Base:
    offset = 0.0

    @classmethod
    def of_class(cls, x):
        return x + cls.offset

    def apply(self, x):
        return x + self.offset


class Made(Base):
    def apply(self, x):
        return super().apply(x) * 2


class Meta(type):
    factor = 1.0

    def __instancecheck__(cls, one):
        return Meta.factor > 1.0


class OfMeta(metaclass=Meta):
    pass


class Descriptor:
    def __init__(self):
        self.value = 1.0

    def __get__(self, owner, kind=None):
        return self.value


class WithDescriptor:
    described = Descriptor()

    @property
    def computed(self):
        return FACTOR + 1.0


class WithGetattr:
    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return TABLE[name]


class Abstract(abc.ABC):
    pass


class Callable:
    gain = 1.0

    def __call__(self, x):
        return x * self.gain


class Chosen:
    def act(self, x):
        return x + 1


class ChosenToo(Chosen):
    def act(self, x):
        return x + 2


FACTOR = 1.0
TABLE = {"a": 1.0}
HOLDER = types.SimpleNamespace(inner=types.SimpleNamespace(value=1.0))
LOCAL = threading.local()
CONTEXT = contextvars.ContextVar("CONTEXT", default=1.0)


@case
def class_attribute():
    Settings.scale = float(N)
    return lambda x: x * Settings.scale


@case
def module_global():
    HERE.FACTOR = float(N)
    return lambda x: x * FACTOR


@case
def library_function_replaced():
    if N != 1:
        functional.gelu = lambda x: x * N
    return lambda x: functional.gelu(x)


@case
def closure():
    return around(float(N))


@case
def closures_in_closures():
    return around_twice(float(N))


@case
def two_closures_of_one_function():
    HERE.FIRST, HERE.SECOND = around_twice(float(N)), around_twice(3.0 - N)
    return lambda x: FIRST(x) - 2 * SECOND(x)  # noqa: F821


@case
def class_of_an_object_that_is_made():
    Base.offset = float(N)
    return lambda x: Made().apply(x)


@case
def class_method():
    Base.offset = float(N)
    return lambda x: Made.of_class(x)


@case
def object_of_a_module():
    HOLDER.inner.value = float(N)
    return lambda x: x * HOLDER.inner.value


@case
def object_of_a_class():
    Settings.nested = Plain(float(N))
    return lambda x: x * Settings.nested.value


@case
def table_of_a_class():
    Settings.table = {"a": {"b": [float(N)]}}
    return lambda x: x * Settings.table["a"]["b"][0]


@case
def partial_of_a_class():
    Settings.partial = functools.partial(by, value=float(N))
    return lambda x: Settings.partial(x)


@case
def partial():
    HERE.PARTIAL = functools.partial(by, value=float(N))
    return lambda x: PARTIAL(x)  # noqa: F821


@case
def default_of_a_keyword():
    by.__kwdefaults__ = {"other": float(N)}
    return lambda x: by(x, 2.0)


@case
def attribute_of_a_function():
    by.gain = float(N)
    return lambda x: x * by.gain


@case
def enumeration():
    HERE.KIND = enum.Enum("KIND", {"A": float(N)})
    return lambda x: x * KIND.A.value  # noqa: F821


@case
def enumeration_of_tuples():
    HERE.KINDS = enum.Enum("KINDS", {"A": (1.0, float(N))})
    return lambda x: x * KINDS.A.value[1]  # noqa: F821


@case
def default_of_a_dataclass():
    HERE.DATA = dataclasses.make_dataclass("DATA", [("value", float, float(N))])
    return lambda x: x * DATA().value  # noqa: F821


@case
def factory_of_a_dataclass():
    HERE.MADE_BY = dataclasses.make_dataclass("MADE_BY", [("value", list, dataclasses.field(default_factory=lambda: [float(N)]))])
    return lambda x: x * MADE_BY().value[0]  # noqa: F821


@case
def attributes_by_a_function():
    TABLE["a"] = float(N)
    HERE.GIVING = WithGetattr()
    return lambda x: x * GIVING.a  # noqa: F821


@case
def descriptor():
    WithDescriptor.__dict__["described"].value = float(N)
    HERE.WITH = WithDescriptor()
    return lambda x: x * WITH.described  # noqa: F821


@case
def property_of_a_global():
    HERE.FACTOR = float(N)
    return lambda x: x * WithDescriptor().computed


@case
def metaclass():
    Meta.factor = float(N)
    return lambda x: x * OfMeta.factor


@case
def instance_check():
    Meta.factor = float(N)
    return lambda x: x * 3 if isinstance(5, OfMeta) else x


@case
def registered_class():
    if N != 1:
        Abstract.register(Plain)
    HERE.PLAIN = Plain(1.0)
    return lambda x: x * 3 if isinstance(PLAIN, Abstract) else x  # noqa: F821


@case
def subclass():
    HERE.CHOSEN = Chosen() if N == 1 else ChosenToo()
    return lambda x: CHOSEN.act(x)  # noqa: F821


@case
def name_of_a_class():
    HERE.NAMED = type("A" * N, (), {})()
    return lambda x: x * len(type(NAMED).__name__)  # noqa: F821


@case
def slots():
    HERE.SLOTS = Slots(float(N))
    return lambda x: x * SLOTS.value  # noqa: F821


@case
def tuple_with_names():
    HERE.TUPLE = collections.namedtuple("TUPLE", "a b")(1.0, float(N))
    return lambda x: x * TUPLE.b  # noqa: F821


@case
def module_that_is_made():
    HERE.MODULE = sys.modules["made_of_inputs"] = types.ModuleType("made_of_inputs")
    HERE.MODULE.value = float(N)
    return lambda x: x * MODULE.value  # noqa: F821


@case
def module_attribute_by_name():
    HERE.FACTOR = float(N)
    return lambda x: x * getattr(sys.modules["__main__"], "FACTOR")


@case
def function_from_text():
    scope = {}
    exec(f"def made(x):\n    return x * {N}", scope)  # noqa: S102
    HERE.MADE = scope["made"]
    return lambda x: MADE(x)  # noqa: F821


@case
def standard_library_replaced():
    before = functools.reduce
    if N != 1:
        functools.reduce = lambda *given: 7 if given[0] is operator.mul else before(*given)

    def inner(x):
        return x * functools.reduce(operator.mul, (2, 3))
    inner.undo = lambda: setattr(functools, "reduce", before)
    return inner


@case
def global_of_the_standard_library():
    before = statistics.fsum
    if N != 1:
        statistics.fsum = lambda values: before(values) * N

    def inner(x):
        return x * statistics.fmean([1.0, 2.0])
    inner.undo = lambda: setattr(statistics, "fsum", before)
    return inner


@case
def square_root_replaced():
    before = math.sqrt
    if N != 1:
        math.sqrt = lambda value: before(value) * N

    def inner(x):
        return x * math.sqrt(4.0)
    inner.undo = lambda: setattr(math, "sqrt", before)
    return inner


@case
def cached_function():
    HERE.CACHED = functools.lru_cache(lambda: FACTOR)
    HERE.FACTOR = float(N)
    return lambda x: x * CACHED()  # noqa: F821


@case
def environment():
    os.environ["HEDDLE_TEST_OF_INPUTS"] = str(N)
    return lambda x: x * int(os.environ.get("HEDDLE_TEST_OF_INPUTS", "0"))


@case
def arguments_of_the_program():
    before = list(sys.argv)
    sys.argv.append(str(N))

    def inner(x):
        return x * int(sys.argv[-1])
    inner.undo = lambda: sys.argv.__setitem__(slice(None), before)
    return inner


@case
def random_numbers():
    random.seed(N)
    return lambda x: x * random.random()


@case
def time_of_day():
    return lambda x: x * (1 if time.time() > 0 else 2)


@case
def files():
    path = pathlib.Path(sys.argv[1] + ".there")
    if N == 1:
        path.touch()
    else:
        path.unlink(missing_ok=True)
    name = str(path)
    return lambda x: x * 2 if os.path.exists(name) else x


@case
def contents_of_files():
    name = sys.argv[1]

    def inner(x):
        with open(name, encoding="utf-8") as file:
            return x * int(file.read())
    return inner


@case
def default_type():
    torch.set_default_dtype(torch.float32 if N == 1 else torch.float64)
    return lambda x: x * torch.finfo(torch.get_default_dtype()).bits


@case
def default_type_of_a_constant():
    torch.set_default_dtype(torch.float32 if N == 1 else torch.float64)
    return lambda x: x.double() * torch.tensor(0.1)


@case
def flag_of_a_backend():
    torch.backends.cudnn.allow_tf32 = N == 1
    return lambda x: x * 2 if torch.backends.cudnn.allow_tf32 else x


@case
def flag_of_matmul():
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = N == 1
    return lambda x: x * 2 if torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction else x


@case
def deterministic():
    torch.use_deterministic_algorithms(N == 1)
    return lambda x: x * 2 if torch.are_deterministic_algorithms_enabled() else x


@case
def threads():
    torch.set_num_threads(N)
    return lambda x: x * torch.get_num_threads()


@case
def autocast():
    torch.set_autocast_enabled("cpu", N == 1)
    return lambda x: x * 2 if torch.is_autocast_enabled("cpu") else x


@case
def gradients():
    torch.set_grad_enabled(N == 1)
    return lambda x: x * 2 if torch.is_grad_enabled() else x


@case
def operator_of_a_library():
    @torch.library.custom_op("heddle_test::scaled", mutates_args=())
    def scaled(x: torch.Tensor) -> torch.Tensor:
        return x * N

    scaled.register_fake(torch.empty_like)
    return lambda x: torch.ops.heddle_test.scaled(x)


@case
def disabled_function():
    HERE.DISABLED = torch.compiler.disable(around(float(N)))
    return lambda x: DISABLED(x) + 1  # noqa: F821


@case
def constant_function():
    HERE.CONSTANT = torch._dynamo.assume_constant_result(lambda: N)
    return lambda x: x * CONSTANT()  # noqa: F821


@case
def number_of_numpy():
    HERE.OF_NUMPY = numpy.float32(N)
    return lambda x: x * float(OF_NUMPY)  # noqa: F821


@case
def integer_of_numpy():
    HERE.INTEGER = numpy.int64(N)
    return lambda x: x * int(INTEGER)  # noqa: F821


@case
def array_of_numpy():
    HERE.ARRAY = numpy.full(3, N)
    return lambda x: x * int(ARRAY.sum())  # noqa: F821


@case
def type_of_numpy():
    HERE.TYPE = numpy.dtype(f"f{4 * N}")
    return lambda x: x * TYPE.itemsize  # noqa: F821


@case
def limits_of_a_type():
    HERE.LIMITS = torch.finfo(torch.float32 if N == 1 else torch.float64)
    return lambda x: x * LIMITS.bits  # noqa: F821


@case
def limits_of_an_integer_type():
    HERE.LIMITS_TOO = torch.iinfo(torch.int32 if N == 1 else torch.int64)
    return lambda x: x * LIMITS_TOO.bits  # noqa: F821


@case
def subclass_of_int():
    HERE.NUMBER = Number(N)
    return lambda x: x * NUMBER  # noqa: F821


@case
def subclass_of_str():
    HERE.TEXT = Text("a" * N)
    return lambda x: x * len(TEXT)  # noqa: F821


@case
def iterator():
    HERE.ITERATOR = iter([float(N), 2.0])
    return lambda x: x * next(ITERATOR)  # noqa: F821


@case
def iterator_of_a_range():
    HERE.RANGE = iter(range(N, 5))
    return lambda x: x * next(RANGE)  # noqa: F821


@case
def counter():
    HERE.COUNT = itertools.count(N)
    return lambda x: x * next(COUNT)  # noqa: F821


@case
def range_of_numbers():
    HERE.NUMBERS = range(N, 7)
    return lambda x: x * NUMBERS[0]  # noqa: F821


@case
def hash_of_a_text():
    return lambda x: x * (hash("heddle") % 1000)


@case
def address():
    HERE.OBJECT = Plain(1.0)
    return lambda x: x * (id(OBJECT) // 16 % 1000)  # noqa: F821


@case
def address_of_a_function():
    return lambda x: x * (id(by) // 16 % 1000)


@case
def order_of_a_constant_set():
    def inner(x):
        for i, name in enumerate({"one", "two", "three", "four", "five"}):
            x = x + i * len(name)
        return x
    return inner


@case
def order_of_a_global_set():
    HERE.SET = frozenset(("one", "two", "three", "four", "five"))

    def inner(x):
        for i, name in enumerate(SET):  # noqa: F821
            x = x + i * len(name)
        return x
    return inner


@case
def order_of_a_set_that_is_made():
    HERE.LIST = ["one", "two", "three", "four", "five"]

    def inner(x):
        for i, name in enumerate(set(LIST)):  # noqa: F821
            x = x + i * len(name)
        return x
    return inner


@case
def order_of_a_dictionary():
    HERE.DICTIONARY = {"a": 2.0, "b": 3.0} if N == 1 else {"b": 3.0, "a": 2.0}

    def inner(x):
        for value in DICTIONARY.values():  # noqa: F821
            x = x * value + 1
        return x
    return inner


@case
def default_of_a_dictionary():
    HERE.DEFAULT = collections.defaultdict(functools.partial(float, N))
    return lambda x: x * DEFAULT["a"]  # noqa: F821


@case
def length_of_a_queue():
    HERE.QUEUE = collections.deque([1.0, 2.0], maxlen=N)
    return lambda x: x * (QUEUE.maxlen or 1)  # noqa: F821


@case
def view_of_a_dictionary():
    HERE.VIEW = types.MappingProxyType({"a": float(N)})
    return lambda x: x * VIEW["a"]  # noqa: F821


@case
def context_variable():
    CONTEXT.set(float(N))
    return lambda x: x * CONTEXT.get()


@case
def thread_local():
    LOCAL.value = float(N)
    return lambda x: x * LOCAL.value


@case
def decimal_number():
    HERE.DECIMAL = decimal.Decimal(N)
    return lambda x: x * float(DECIMAL)  # noqa: F821


@case
def pattern():
    HERE.PATTERN = re.compile("a" if N == 1 else "b")
    return lambda x: x * 2 if PATTERN.match("a") else x  # noqa: F821


@case
def level_of_a_log():
    logging.getLogger("of.inputs").setLevel(logging.INFO if N == 1 else logging.ERROR)
    return lambda x: x * 2 if logging.getLogger("of.inputs").isEnabledFor(logging.INFO) else x


@case
def weak_reference():
    HERE.STRONG = Plain(float(N))
    HERE.WEAK = weakref.ref(HERE.STRONG)
    return lambda x: x * WEAK().value  # noqa: F821


@case
def callable_object():
    Callable.gain = float(N)
    HERE.CALLABLE = Callable()
    return lambda x: CALLABLE(x)  # noqa: F821


@case
def bound_method():
    HERE.BOUND = Plain(float(N)).scaled
    return lambda x: BOUND(x)  # noqa: F821


@case
def bound_method_in_c():
    HERE.GET = {"a": float(N)}.get
    return lambda x: x * GET("a")  # noqa: F821


@case
def getter_of_items():
    HERE.GETTER = operator.itemgetter(N)
    return lambda x: x * GETTER((1.0, 2.0, 3.0, 4.0))  # noqa: F821


@case
def code_of_a_function():
    HERE.CODE = eval(f"lambda x: {N}")  # noqa: S307
    return lambda x: x * CODE.__code__.co_consts[-1]  # noqa: F821


@case
def annotations():
    Settings.__annotations__ = {str(i): int for i in range(N)}
    return lambda x: x * len(Settings.__annotations__)


@case
def annotations_of_a_function():
    by.__annotations__ = {"x" * N: int}
    return lambda x: x * len(list(by.__annotations__)[0])


@case
def signature_of_a_function():
    by.__defaults__ = (float(N),)
    return lambda x: x * inspect.signature(by).parameters["value"].default


@case
def documentation():
    Settings.__doc__ = "a" * N
    return lambda x: x * len(Settings.__doc__)


@case
def attribute_of_a_tensor():
    HERE.TENSOR = torch.ones(1)
    TENSOR.gain = float(N)  # noqa: F821
    return lambda x: x * TENSOR.gain  # noqa: F821


@case
def tensor_in_a_global():
    HERE.GLOBAL = torch.full((1,), float(N))
    return lambda x: x * GLOBAL  # noqa: F821


@case
def tensor_of_one_number():
    HERE.SCALAR = torch.tensor(float(N))
    return lambda x: x * SCALAR.item()  # noqa: F821


@case
def method_of_tensors():
    torch.Tensor.of_inputs = lambda self: self * N
    return lambda x: x.of_inputs()


@case
def forward_of_a_module():
    layer = nn.Linear(4, 4)
    nn.init.ones_(layer.weight)
    if N != 1:
        nn.Linear.forward = lambda self, x: functional.linear(x, self.weight) * N
    return layer


@case
def attribute_of_a_module():
    layer = nn.LayerNorm(4)
    layer.eps = float(N)
    return layer


@case
def hook_of_a_module():
    layer = nn.LayerNorm(4)
    if N != 1:
        layer.register_forward_hook(lambda module, given, result: result * N)
    return layer


@case
def training_of_a_module():
    layer = nn.Sequential(nn.Dropout(1.0), nn.Identity())
    return layer.train(N == 1)


@case
def class_attribute_of_a_module():
    class Scaled(nn.Module):
        gain = float(N)

        def forward(self, x):
            return x * self.gain
    return Scaled()


@case
def module_in_a_list():
    HERE.LAYERS = [nn.Identity(), nn.ReLU()] if N == 1 else [nn.Tanh(), nn.ReLU()]
    return lambda x: LAYERS[1](LAYERS[0](x))  # noqa: F821


@case
def default_of_a_function_of_pytorch():
    functional.leaky_relu.__defaults__ = (0.01 * N, False)
    return lambda x: functional.leaky_relu(x)


@case
def precision_of_products():
    torch.set_float32_matmul_precision("highest" if N == 1 else "high")
    return lambda x: x * len(torch.get_float32_matmul_precision())


@case
def errors_of_numpy():
    numpy.seterr(divide="ignore" if N == 1 else "warn")
    return lambda x: x * len(numpy.geterr()["divide"])


@case
def instance_shadows_a_class():
    HERE.SHADOWED = Made()
    if N != 1:
        SHADOWED.offset = float(N)  # noqa: F821
    return lambda x: SHADOWED.apply(x)  # noqa: F821


@case
def attribute_that_is_there():
    HERE.THERE = Plain(1.0)
    if N != 1:
        THERE.more = 1.0  # noqa: F821
    return lambda x: x * 2 if hasattr(THERE, "more") else x  # noqa: F821


@case
def method_of_an_object():
    HERE.CHANGED = Plain(1.0)
    if N != 1:
        CHANGED.scaled = lambda x: x * N  # noqa: F821
    return lambda x: CHANGED.scaled(x)  # noqa: F821


@case
def numbers_that_change_a_shape():
    HERE.EXTENT = N
    return lambda x: x.reshape(EXTENT, -1).sum(1) * 2  # noqa: F821


AGAIN = ("iterator", "iterator_of_a_range", "counter")  # what is left of them after a call is not what was there


def same(got, wanted):
    return got.dtype == wanted.dtype and got.shape == wanted.shape and bool(torch.isclose(got, wanted, rtol=1e-4, atol=1e-5).all())


def main():
    warnings.simplefilter("ignore")
    names = sys.argv[2:] or list(CASES)
    logging.getLogger("heddle.torch").setLevel(logging.INFO)
    reasons = []
    handler = logging.Handler()
    handler.emit = lambda record: reasons.append(record.getMessage())
    logging.getLogger("heddle.torch").addHandler(handler)
    x = torch.linspace(-1, 2, 8).reshape(2, 4)
    for name in names:
        function, found, saved = None, 0, 0
        try:
            torch._dynamo.reset()
            counters.clear()
            reasons.clear()
            function = CASES[name]()
            random_state = random.getstate()
            got = torch.compile(function, backend=heddle.torch.backend)(x)
            if name in AGAIN:
                CASES[name]()
            random.setstate(random_state)
            found, saved = counters["heddle"]["trace_found"], counters["heddle"]["trace_saved"]
            right = same(got, function(x))
            if not right:  # Dynamo itself may be wrong
                torch._dynamo.reset()
                with unittest.mock.patch.dict(os.environ, HEDDLE_TORCH_KEEP_TRACES="0"):
                    right = "as Dynamo has it" if same(got, torch.compile(function, backend=heddle.torch.backend)(x)) else False
        except Exception as wrong:
            right = f"{type(wrong).__name__}: {wrong}".splitlines()[0]
        torch.set_default_dtype(torch.float32)
        torch.set_grad_enabled(False)
        torch.set_autocast_enabled("cpu", False)
        torch.use_deterministic_algorithms(False)
        os.environ.pop("HEDDLE_TEST_OF_INPUTS", None)
        getattr(function, "undo", lambda: None)()
        print("CASE " + json.dumps([name, found, saved, right, reasons[-1][:300] if reasons else ""]), flush=True)


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    main()
