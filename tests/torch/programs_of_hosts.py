# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A program whose functions depend on the name of the host, a number in the variable HOSTNAME, and on the length of the name that the system knows:
kept_traces_test.py runs it under several names, in processes that are otherwise the same.

For each function it prints its name, whether its trace was found and saved, and whether the compiled function computes what the function computes."""
import functools
import json
import logging
import os
import platform
import re
import socket
import sys
import warnings
from os import getenv as get
from os import uname as uname_of_system
from platform import node as node_of_platform

import torch
from torch import nn

import heddle.torch
from torch._dynamo.utils import counters

NUMBER = int(os.environ["HOSTNAME"])
NAME = "HOST" + "NAME"
ENVIRONMENT = os.environ
BYTES = os.environb
COPY = dict(os.environ)
DATA = os.environ._data
BOUND = os.environ.__getitem__
PART = functools.partial(os.environ.get, NAME)
NODE = platform.node()
CASES = {}


class Holder:
    environment = os.environ
    number = NUMBER


class Scaled(nn.Module):
    def __init__(self, number):
        super().__init__()
        self.number = number

    def forward(self, x):
        return x * self.number


class Reading(nn.Module):
    def __init__(self):
        super().__init__()
        self.environment = os.environ

    def forward(self, x):
        return x * int(self.environment[NAME])


@functools.lru_cache
def cached():
    return int(ENVIRONMENT[NAME])


def scaled_by_default(x, number=NUMBER):
    return x * number


def case(function):
    CASES[function.__name__] = function
    return function


@case
def nothing_of_it():
    return lambda x: torch.sin(x) + 1


@case
def a_global():
    return lambda x: x * NUMBER


@case
def a_class():
    return lambda x: x * Holder.number


@case
def a_default():
    return scaled_by_default


@case
def a_module():
    return Scaled(NUMBER)


@case
def a_shape():
    return lambda x: x[:NUMBER % 7].sum() + x


@case
def a_branch():
    return (lambda x: x + 1) if NUMBER == 1 else (lambda x: x + 2)


@case
def a_cached_function():
    return lambda x: x * cached()


@case
def the_environment():
    return lambda x: x * int(os.environ["HOSTNAME"])


@case
def another_name_of_it():
    return lambda x: x * int(ENVIRONMENT["HOSTNAME"])


@case
def a_computed_key():
    return lambda x: x * int(ENVIRONMENT[NAME])


@case
def method_get():
    return lambda x: x * int(ENVIRONMENT.get(NAME))


@case
def a_branch_on_it():
    return lambda x: x + 1 if ENVIRONMENT.get(NAME) == "1" else x + 2


@case
def getenv():
    return lambda x: x * int(get(NAME))


@case
def of_a_class():
    return lambda x: x * int(Holder.environment[NAME])


@case
def of_a_module():
    return Reading()


@case
def a_copy():
    return lambda x: x * int(COPY[NAME])


@case
def a_branch_on_a_copy():
    return lambda x: x + 1 if COPY.get(NAME) == "1" else x + 2


@case
def its_dictionary():
    return lambda x: x * int(DATA[b"HOSTNAME"])


@case
def bytes_of_it():
    return lambda x: x * int(BYTES[b"HOSTNAME"])


@case
def its_items():
    return lambda x: x * int([value for key, value in ENVIRONMENT.items() if key == NAME][0])


@case
def a_comparison():
    return lambda x: x + (1 if ENVIRONMENT == {**COPY, NAME: "1"} else 2)


@case
def a_bound_method():
    return lambda x: x * int(BOUND(NAME))


@case
def a_part():
    return lambda x: x * int(PART())


@case
def expanded():
    return lambda x: x * int(os.path.expandvars("$HOSTNAME"))


@case
def formatted():
    return lambda x: x * int("{0[HOSTNAME]}".format(ENVIRONMENT))


@case
def substituted():
    return lambda x: x * int(re.sub("h", ENVIRONMENT[NAME], "h"))


@case
def node():
    return lambda x: x * len(platform.node())


@case
def another_name_of_node():
    return lambda x: x * len(node_of_platform())


@case
def node_at_first():
    return lambda x: x * len(NODE)


@case
def uname():
    return lambda x: x * len(os.uname().nodename)


@case
def another_name_of_uname():
    return lambda x: x * len(uname_of_system()[1])


@case
def uname_of_platform():
    return lambda x: x * len(platform.uname()[1])


@case
def name_of_the_host():
    return lambda x: x * len(socket.gethostname())


def main():
    warnings.simplefilter("ignore")
    torch.set_grad_enabled(False)
    reasons = []
    handler = logging.Handler()
    handler.emit = lambda record: reasons.append(record.getMessage())
    logging.getLogger("heddle.torch").setLevel(logging.INFO)
    logging.getLogger("heddle.torch").addHandler(handler)
    x = torch.linspace(-1, 2, 8)
    for name in sys.argv[1:] or CASES:
        torch._dynamo.reset()
        counters.clear()
        reasons.clear()
        function = CASES[name]()
        try:
            right = torch.allclose(torch.compile(function, backend=heddle.torch.backend)(x), function(x))
        except Exception as wrong:  # of Dynamo
            right = type(wrong).__name__
        found, saved = counters["heddle"]["trace_found"], counters["heddle"]["trace_saved"]
        print("CASE " + json.dumps([name, found, saved, right, reasons[-1][:300] if reasons else ""]), flush=True)


if __name__ == "__main__":
    main()
