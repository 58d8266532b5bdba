# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A minor version that does not exist: the public headers with something behind the end of every struct and table that may grow.

Used by matrix_test.py, which builds the templates, an application and the kit against it. It knows the rule of HD-E-04 alone: what begins with
struct_size may grow, unless docs/abi.md calls it frozen. Tables get two functions, structs two numbers.
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import writable  # noqa: E402

# They have a struct_size and are frozen all the same (types.h, driver.h, docs/abi.md).
FROZEN = {"heddle_sync", "heddle_negotiation"}
TABLE = re.compile(r"_interface$|^heddle_(host|plugin|provider)$")
FUNCTIONS = "  heddle_status_t* (*later_one)(void* context);\n  heddle_status_t* (*later_two)(void* context);\n"
NUMBERS = "  uint64_t later_number;\n  uint64_t later_other;\n"


def grow(text):
    """(the header with every struct grown that may, their names)."""
    grown, position = [], 0
    while match := re.compile(r"\bstruct (\w+) \{[^\n]*\n\s*uint32_t struct_size;").search(text, position):
        depth, end = 0, match.start()
        while True:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            if text[end] == "}" and depth == 0:
                break
            end += 1
        position = end
        if match[1] in FROZEN:
            continue
        more = FUNCTIONS if TABLE.search(match[1]) else NUMBERS
        text = text[:end] + more + text[end:]
        position = end + len(more)
        grown.append(match[1])
    return text, grown


def minor_of(types):
    return int(re.search(r"^#define HEDDLE_ABI_MINOR (\d+)$", types, re.MULTILINE)[1])


def write(headers, target):
    """Copies a folder of headers, grown, with HEDDLE_ABI_MINOR one higher. Gives the minor and the names of what has grown."""
    writable.copytree(headers, target)
    names = []
    for path in sorted(pathlib.Path(target).rglob("*.h")):
        text, grown = grow(path.read_text(encoding="utf-8"))
        path.write_text(text, encoding="utf-8")
        names += grown
    types = pathlib.Path(target, "heddle", "types.h")
    text = types.read_text(encoding="utf-8")
    minor = minor_of(text) + 1
    types.write_text(re.sub(r"^(#define HEDDLE_ABI_MINOR) \d+$", rf"\1 {minor}", text, flags=re.MULTILINE), encoding="utf-8")
    return minor, names
