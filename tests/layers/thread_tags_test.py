# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""HD-T-01: every function of the public headers says by a thread tag who may call it: in the comment above it, above its neighbours or above its struct, or behind it."""
import os
import pathlib
import re
import unittest

HEADERS = pathlib.Path(os.environ["HEDDLE_SOURCE"]) / "sdk" / "include" / "heddle"
TAG = re.compile(r"\[(any|callback|serial:\w+)\]")
# A comment, an exported function, a function of a struct, the begin of a struct, the end of one, an empty line.
PART = re.compile(r"(?P<comment>/\*.*?\*/)|(?P<function>^HEDDLE_EXPORT[^;]*;)|(?P<member>^ +[\w ]+\*? ?\(\*\w+\)\([^;]*\);)"
                  r"|(?P<begin>^typedef struct \w+ \{)|(?P<end>^\})|(?P<gap>\n\n)", re.DOTALL | re.MULTILINE)


def untagged(text):
    """(names of functions without a tag, how many functions there are)."""
    missing, count, above, of_struct = [], 0, False, False
    for part in PART.finditer(text):
        kind = part.lastgroup
        if kind == "comment":
            behind = text[text.rfind("\n", 0, part.start()) + 1:part.start()].strip() != ""
            if TAG.search(part[0]):
                above = True
            elif not behind:
                above = False
        elif kind == "begin":
            of_struct = above
        elif kind in ("end", "gap"):
            above, of_struct = False, of_struct and kind == "gap"
        else:
            count += 1
            line = text[part.end():text.find("\n", part.end())]
            if not (above or of_struct or TAG.search(line)):
                missing.append(re.search(r"\(\*(\w+)\)|(\w+)\(", part[0].replace("HEDDLE_EXPORT", "")).group(0).strip("(*)"))
    return missing, count


class ThreadTags(unittest.TestCase):
    def test_every_function_has_one(self):
        total = 0
        for header in sorted(HEADERS.rglob("*.h")):
            missing, count = untagged(header.read_text(encoding="utf-8"))
            self.assertEqual(missing, [], f"{header.name}: no [any], [serial:object] or [callback] [HD-T-01]")
            total += count
        self.assertGreater(total, 120)

    def test_one_without_is_found(self):
        text = "/* Frees. [any] */\nHEDDLE_EXPORT void one(void);\n\n/* Lost. */\nHEDDLE_EXPORT void two(void);\n"
        self.assertEqual(untagged(text), (["two"], 2))
        table = "/* A table. */\ntypedef struct t {\n  void (*three)(void* self);\n  void (*four)(void); /* [any] */\n} t_t;\n"
        self.assertEqual(untagged(table), (["three"], 2))


if __name__ == "__main__":
    unittest.main()
