#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The ABI of the public headers against that of every released minor (docs/abi.md, HD-A-01).

usage: abi.py check [HEADERS]          fails on what the rules do not allow, and on a missing bump of HEDDLE_ABI_MINOR
       abi.py dump HEADERS FOLDER N    writes FOLDER/0.N.abi.xz and FOLDER/0.N.constants, as tools/dev/freeze-abi does at a release

Types are compared by abidiff (Debian's abigail-tools), over a library with one function for every struct, exported function and function type of the
headers. Constants are macros, which no debug information has: the preprocessor gives their values. Used by tools/dev/check and by tests/abi.
"""
import lzma
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADERS = ROOT / "sdk" / "include"
RELEASED = ROOT / "tests" / "abi"

# They have a struct_size but are frozen: one is held by value, the other is what versions are negotiated with.
FROZEN = {"heddle_sync", "heddle_negotiation"}
# The macro with the current minor version.
VERSION = "HEDDLE_ABI_MINOR"


class Broken(Exception):
    """A step that could not be done; its text says which and why."""


def run(command, ok=(0,), **more):
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=120, **more)
    except FileNotFoundError as missing:
        raise Broken(f"{command[0]} is not installed; tools/dev/setup installs it") from missing
    if done.returncode not in ok:
        raise Broken(f"{' '.join(str(word) for word in command)} ended with {done.returncode}: {done.stderr[-2000:] or done.stdout[-2000:]}")
    return done


def includes(headers):
    names = sorted(path.relative_to(headers).as_posix() for path in (headers / "heddle").rglob("*.h"))
    if not names:
        raise Broken(f"{headers} has no headers of Heddle")
    return "".join(f"#include <{name}>\n" for name in names)


def preprocess(headers, text, *flags):
    return run([os.environ.get("CC", "cc"), "-std=c11", "-E", "-P", f"-I{headers}", *flags, "-x", "c", "-"], input=includes(headers) + text).stdout


def anchor(headers):
    """C text: for each struct, exported function and function type of the headers an exported function that takes a pointer to it."""
    text = preprocess(headers, "")
    structs = set(re.findall(r"\bstruct (heddle_\w+) \{", text))
    functions = set(re.findall(r"__attribute__\(\(visibility\(\"default\"\)\)\)[^;{]*?\b(heddle_\w+)\(", text))
    types = set(re.findall(r"\btypedef\b[^;{}]*?\(\*\s*(heddle_\w+)\)\(", text))
    lines = [f"ANCHOR void of_{name}(struct {name}* a) {{ (void)a; }}" for name in sorted(structs)]
    lines += [f"ANCHOR void of_{name}(__typeof__({name})* a) {{ (void)a; }}" for name in sorted(functions)]
    lines += [f"ANCHOR void of_{name}({name} a) {{ (void)a; }}" for name in sorted(types)]
    return includes(headers) + '#define ANCHOR __attribute__((visibility("default")))\n' + "\n".join(lines) + "\n"


def dump_types(headers, out):
    with tempfile.TemporaryDirectory(prefix="heddle-abi-") as folder:
        source, library = pathlib.Path(folder, "anchor.c"), pathlib.Path(folder, "anchor.so")
        source.write_text(anchor(headers), encoding="utf-8")
        run([os.environ.get("CC", "cc"), "-std=gnu11", "-g", "-gdwarf-4", "-O0", "-fPIC", "-shared", f"-ffile-prefix-map={folder}=.", f"-I{headers}", source, "-o",
             library])
        run(["abidw", "--no-show-locs", "--no-corpus-path", "--no-comp-dir-path", "--out-file", out, library])


def constants(headers):
    """{name: value} of every object-like macro, {name(arguments): text} of the others."""
    listed = preprocess(headers, "", "-dM")
    names, found = [], {}
    for line in listed.splitlines():
        match = re.match(r"#define (HEDDLE_\w+)(\([^)]*\))?(?: (.*))?$", line)
        if not match or match[1].endswith("_H_"):
            continue
        if match[2]:
            found[match[1] + match[2]] = match[3] or ""
        else:
            names.append(match[1])
    text = preprocess(headers, "".join(f"\nheddle_value_of {name[0]} ## {name[1:]} = {name}\n" for name in names))
    values = re.findall(r"^heddle_value_of (\w) ## (\w+) =(.*)$", text, re.MULTILINE)
    if len(values) != len(names):
        raise Broken("the preprocessor gave no value for some constants")
    found.update({first + rest: value.strip() for first, rest, value in values})
    found.pop(VERSION)
    return found


def minor_of(headers):
    return int(preprocess(headers, f"\nheddle_minor {VERSION}\n").rsplit("heddle_minor", 1)[1].strip())


def write_constants(values, out):
    out.write_text("".join(f"{name} = {value}\n" for name, value in sorted(values.items())), encoding="utf-8")


def read_constants(path):
    return dict(line.split(" = ", 1) for line in path.read_text(encoding="utf-8").splitlines())


def growing(dump):
    """{struct: its size in bits} of those that may grow: they begin with struct_size."""
    found = {}
    for node in xml.etree.ElementTree.parse(dump).getroot().iter("class-decl"):
        members = [member.find("var-decl") for member in node.findall("data-member")]
        if members and members[0] is not None and members[0].get("name") == "struct_size" and node.get("name") not in FROZEN:
            found[node.get("name")] = int(node.get("size-in-bits"))
    return found


def type_changes(old, new):
    """(what the rules allow, what they do not): lines about the types of two dumps. What this does not know is not allowed."""
    done = run(["abidiff", "--no-show-locs", "--leaf-changes-only", "--no-default-suppression", "--harmless", old, new], ok=(0, 4, 8, 12))
    # The whole report as well, in case it has a change that the list of changed types lacks.
    whole = run(["abidiff", "--no-show-locs", "--no-default-suppression", "--harmless", old, new], ok=(0, 4, 8, 12))
    may_grow = growing(old)
    allowed, broken, struct, size, added = [], [], None, None, False
    for line in done.stdout.splitlines():
        text = line.strip()
        if not text or " summary: " in text:
            continue
        if re.match(r"\d+ (Added|added) functions?", text):
            added = True
            continue
        if re.match(r"\d+ (Removed|removed|Changed|changed) functions?", text):
            added = False
            continue
        match = re.match(r"\[A\] 'function .*'", text)
        if match and added:
            allowed.append(re.sub(r".*\bof_(heddle_\w+)\(.*", r"\1 is new", text))
            continue
        match = re.match(r"'struct (\w+)' changed:", text)
        if match:
            struct, size = match[1], may_grow.get(match[1])
            continue
        match = re.match(r"type size changed from (\d+) to (\d+) \(in bits\)", text)
        if match and size is not None and int(match[1]) == size and int(match[2]) > size:
            continue
        if re.match(r"\d+ data member insertions?:", text) and size is not None:
            continue
        match = re.match(r"'(.*)', at offset (\d+) \(in bits\)", text)
        if match and size is not None and int(match[2]) >= size:
            allowed.append(f"{struct} has {match[1]} at its end")
            continue
        broken.append(f"{struct + ': ' if struct and line.startswith(' ') else ''}{text}")
    if whole.returncode and not (allowed or broken):
        broken.append("abidiff finds a change that its list of changed types does not show:\n" + whole.stdout[-3000:])
    return allowed, broken


def constant_changes(old, new):
    broken = [f"{name} is gone; its value was {value}" for name, value in sorted(old.items()) if name not in new]
    broken += [f"{name} is {new[name]}; it was {value}" for name, value in sorted(old.items()) if new.get(name, value) != value]
    return [f"{name} is new" for name in sorted(set(new) - set(old))], broken


def releases(released):
    return sorted(int(path.name.split(".")[1]) for path in released.glob("0.*.abi.xz"))


def check(headers=HEADERS, released=RELEASED):
    """What is wrong, a line each."""
    wrong = []
    minors = releases(released)
    if not minors:
        raise Broken(f"{released} has the ABI of no minor")
    minor, values = minor_of(headers), constants(headers)
    with tempfile.TemporaryDirectory(prefix="heddle-abi-") as folder:
        now = pathlib.Path(folder, "now.abi")
        dump_types(headers, now)
        for old in minors:
            then = pathlib.Path(folder, "then.abi")
            then.write_bytes(lzma.decompress((released / f"0.{old}.abi.xz").read_bytes()))
            grown, broken = type_changes(then, now)
            more, changed = constant_changes(read_constants(released / f"0.{old}.constants"), values)
            wrong += [f"against 0.{old}: {text}" for text in broken + changed]
    newest = minors[-1]
    if (grown or more) and minor != newest + 1:
        what = "; ".join((grown + more)[:5])
        wrong.append(f"HEDDLE_ABI_MINOR is {minor}, and the headers have more than 0.{newest}, the newest release ({what}); set it to {newest + 1}")
    elif minor not in (newest, newest + 1):
        wrong.append(f"HEDDLE_ABI_MINOR is {minor}; {newest} was expected, the newest release, or {newest + 1}, which is in development")
    return wrong


def main(words):
    try:
        if words[:1] == ["check"] and len(words) <= 2:
            wrong = check(*(pathlib.Path(word) for word in words[1:]))
            for text in wrong:
                print(f"abi: {text}", file=sys.stderr)
            if wrong:
                print("abi: the table under 'Versions' in docs/abi.md says which change moves what [HD-A-01]", file=sys.stderr)
            return 1 if wrong else 0
        if words[:1] == ["dump"] and len(words) == 4:
            headers, folder, minor = pathlib.Path(words[1]), pathlib.Path(words[2]), int(words[3])
            if minor_of(headers) != minor:
                raise Broken(f"{headers} is of ABI 0.{minor_of(headers)}, not 0.{minor}")
            with tempfile.TemporaryDirectory(prefix="heddle-abi-") as scratch:
                plain = pathlib.Path(scratch, "types.abi")
                dump_types(headers, plain)
                (folder / f"0.{minor}.abi.xz").write_bytes(lzma.compress(plain.read_bytes(), preset=9))
            write_constants(constants(headers), folder / f"0.{minor}.constants")
            return 0
    except Broken as failure:
        print(f"abi: {failure}", file=sys.stderr)
        return 1
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
