# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests and tools remove no directory but one that they made themselves, under a name that nothing else has.

C++ has heddle::testing::TemporaryFolder and Python has tempfile: both make the directory and remove it. A script removes what `mktemp -d` gave it,
a text test what is below its own %t.
"""
import os
import pathlib
import re
import unittest

SOURCE = pathlib.Path(os.environ.get("HEDDLE_SOURCE", pathlib.Path(__file__).resolve().parents[2]))
PLACES = (".ci", "tests", "tools", "sdk/template", "sdk/examples")
MAY_REMOVE = {"tests/temporary_folder.h", "tests/layers/removal_test.py"}
BINARY = {".xz", ".heddle", ".onnx", ".npy", ".npz", ".safetensors", ".image", ".pyc"}
NAMED = re.compile(r"\bremove_all\b|\brmtree\b|\bremovedirs\b|[\"'](?:/usr)?(?:/bin/)?rm[\"']|\bnftw\b|\bREMOVE_RECURSE\b|\bgit\s+clean\b|\bfind\b[^\n|;]*\s-delete\b|"
                   r"\brm\b[^\n;&|]*\s--recursive\b|\brm\s+[^-\s][^\n;&|]*\s-\w*[rR]")
RECURSIVE_RM = re.compile(r"\brm\s+(?:--?[\w-]+\s+)*-\w*[rR]\w*(?:\s+--?[\w-]+)*\s+([^;&|]*?)(?=\s*(?:[;&|'#]|$))", re.MULTILINE)


def of_own(argument, text):
    """Whether a script removes by `argument` what mktemp made for it, or a text test what is below its %t."""
    if re.match(r"%t\b", argument):
        return ".." not in argument
    variable = re.fullmatch(r'"\$\{?(\w+)\}?"', argument)
    return bool(variable) and re.search(rf'\b{variable[1]}="?\$\(mktemp -d\b', text) is not None


def removals(text):
    """What in the text removes directories that may be somebody else's: (line number, line)."""
    found = []
    for match in NAMED.finditer(text):
        found.append(match.start())
    for match in RECURSIVE_RM.finditer(text):
        arguments = match[1].split()
        if not arguments or not all(of_own(argument, text) for argument in arguments):
            found.append(match.start())
    return sorted((text.count("\n", 0, at) + 1, text.splitlines()[text.count("\n", 0, at)].strip()) for at in found)


class Removals(unittest.TestCase):
    def test_nothing_removes_what_it_did_not_make(self):
        found, read = [], 0
        for place in PLACES:
            for path in sorted((SOURCE / place).rglob("*")):
                name = path.relative_to(SOURCE).as_posix()
                if path.is_dir() or path.suffix in BINARY or name in MAY_REMOVE or "/corpus/" in name or "/__pycache__/" in name:
                    continue
                read += 1
                found += [f"{name}:{line}: {text}" for line, text in removals(path.read_text(encoding="utf-8", errors="replace"))]
        self.assertGreater(read, 300)
        self.assertEqual(found, [], "use TemporaryFolder (C++), tempfile (Python) or mktemp -d (scripts)")

    def test_what_others_made_is_found(self):
        for text in ("std::filesystem::remove_all(safe_);", "shutil.rmtree(prefix)", "self.addCleanup(shutil.rmtree, prefix)",
                     'subprocess.run(["rm", "-rf", path])', 'rm -rf "$build"', "rm -rf $work", "rm -r /tmp/x", "rm -f -r build", "rm -rf --one-file-system \"$1\"",
                     'work="$1"\ntrap \'rm -rf "$work"\' EXIT', "RUN: rm -rf %S/build && mkdir x", "RUN: rm -rf %t build && mkdir %t", "rm -rf '/tmp/x'",
                     "rm --recursive x", "rm x -rf", '["/bin/rm", x]', "find x -delete", "git clean -fdx", "file(REMOVE_RECURSE x)", "RUN: rm -rf %t/../x"):
            self.assertEqual(len(removals(text)), 1, text)

    def test_what_was_made_for_it_may_go(self):
        for text in ('work="$(mktemp -d)"\ntrap \'rm -rf "$work"\' EXIT', "RUN: rm -rf %t && mkdir %t", "RUN: sh -c 'rm -rf %t.twice && mkdir %t.twice'",
                     'rm -f "$results"/*.xml', "path.unlink()"):
            self.assertEqual(removals(text), [], text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
