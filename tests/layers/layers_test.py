# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares the map and the include rules of docs/architecture.md with the tree, and with what the build linked.

The map is the table under "## Directories" there: directory | contents | may depend on | state. It knows nothing else about
the rooms, so a rule changes in the document first.
"""
import json
import os
import pathlib
import re
import shlex
import subprocess
import unittest

SOURCE = pathlib.Path(os.environ.get("HEDDLE_SOURCE", pathlib.Path(__file__).resolve().parents[2]))
BUILD = pathlib.Path(os.environ.get("HEDDLE_BUILD", SOURCE / "build" / "release"))
MAP = SOURCE / "docs" / "architecture.md"

SOURCE_SUFFIXES = {".c", ".h", ".cpp", ".hpp", ".inc", ".td", ".fbs", ".py", ".map"}
C_SUFFIXES = {".c", ".h", ".cpp", ".hpp", ".inc"}
# The headers of C11's section 7; `sdk/include` may use no other.
C_STANDARD_HEADERS = {
    "assert.h", "complex.h", "ctype.h", "errno.h", "fenv.h", "float.h", "inttypes.h", "iso646.h", "limits.h",
    "locale.h", "math.h", "setjmp.h", "signal.h", "stdalign.h", "stdarg.h", "stdatomic.h", "stdbool.h", "stddef.h",
    "stdint.h", "stdio.h", "stdlib.h", "stdnoreturn.h", "string.h", "tgmath.h", "threads.h", "time.h", "uchar.h",
    "wchar.h", "wctype.h",
}
LLVM_INCLUDE = re.compile(r"^(mlir|mlir-c|llvm|llvm-c|lld|clang)/")
LLVM_LIBRARY = re.compile(r"^lib(LLVM|MLIR|lld|clang)")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
EMPTY_NAMES = re.compile(r"(^|_)(utils?|common|helpers?|managers?|misc)(_|$)")
GENERATED = re.compile(r"(_generated\.h|\.pb\.(h|cc)|\.o|\.a|\.so|CMakeCache\.txt|\.h\.inc|\.cpp\.inc)$")


def tree_files():
    """Every file of the tree except build folders, environments and dotted folders other than .ci."""
    for folder, folders, names in os.walk(SOURCE):
        kept = []
        for name in folders:
            hidden = name.startswith(".") and name != ".ci"
            if not hidden and name != "__pycache__" and not (folder == str(SOURCE) and name.startswith("build")):
                kept.append(name)
        folders[:] = kept
        for name in names:
            yield (pathlib.Path(folder) / name).relative_to(SOURCE)


def section(title):
    text = MAP.read_text(encoding="utf-8")
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if not found:
        raise AssertionError(f"docs/architecture.md has no section '## {title}'")
    return found.group(1)


class Room:
    def __init__(self, path, depends, state):
        self.path = path
        self.depends = depends
        self.state = state


def read_rooms():
    rooms = {}
    for line in section("Directories").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) != 4 or not cells[0].startswith("`"):
            continue
        path = cells[0].strip("`").rstrip("/")
        if path in rooms:
            raise AssertionError(f"docs/architecture.md: room {path} is there twice")
        depends = [token.rstrip("/") for token in re.findall(r"`([^`]+)`", cells[2])]
        if cells[2] == "anything":
            depends = ["*"]
        rooms[path] = Room(path, depends, cells[3])
    return rooms


def read_llvm_programs():
    return set(re.findall(r"^- `([^`]+)`", section("What may link LLVM"), re.MULTILINE))


def room_of(path, rooms):
    """The room with the longest path that is the file or a folder above it; None for a file outside all rooms."""
    candidates = [path.as_posix(), *[parent.as_posix() for parent in path.parents]]
    return next((rooms[name] for name in candidates if name in rooms), None)


def may_depend(room, other):
    if room.path == other.path or "*" in room.depends:
        return True
    return any(other.path == name or other.path.startswith(name + "/") for name in room.depends)


def include_folders(rooms):
    """Per room, the folders inside the tree that its translation units search, from the compile commands."""
    folders = {}
    commands = BUILD / "compile_commands.json"
    if not commands.exists():
        return folders
    for entry in json.loads(commands.read_text()):
        file = pathlib.Path(entry["directory"], entry["file"]).resolve()
        if not file.is_relative_to(SOURCE) or file.is_relative_to(BUILD):
            continue
        room = room_of(file.relative_to(SOURCE), rooms)
        words = entry.get("arguments") or shlex.split(entry["command"])
        searched = folders.setdefault(room.path if room else "", [])
        for position, word in enumerate(words):
            flag = next((f for f in ("-I", "-isystem", "-iquote") if word.startswith(f)), None)
            if not flag:
                continue
            value = word[len(flag):] or words[position + 1]
            folder = pathlib.Path(entry["directory"], value).resolve()
            if folder.is_relative_to(SOURCE) and not folder.is_relative_to(BUILD) and folder not in searched:
                searched.append(folder)
    return folders


def resolve(file, form, name, searched):
    """The included file inside the tree, or None for a system or generated header."""
    places = ([SOURCE / file.parent] if form == '"' else []) + searched
    for place in places:
        candidate = (place / name).resolve()
        if candidate.is_file() and candidate.is_relative_to(SOURCE) and not candidate.is_relative_to(BUILD):
            return candidate.relative_to(SOURCE)
    return None


def includes():
    """(file, its room, form, name, included file in the tree or None) for every include in the tree."""
    rooms = read_rooms()
    searched = include_folders(rooms)
    everywhere = sorted({folder for folders in searched.values() for folder in folders})
    everywhere = everywhere or [SOURCE, SOURCE / "sdk" / "include", SOURCE / "sdk" / "cpp"]
    for file in tree_files():
        if file.suffix not in C_SUFFIXES:
            continue
        room = room_of(file, rooms)
        folders = searched.get(room.path if room else "", everywhere) or everywhere
        for form, name in INCLUDE.findall((SOURCE / file).read_text(encoding="utf-8", errors="replace")):
            yield file, room, form, name, resolve(file, form, name, folders)


class Map(unittest.TestCase):
    def test_every_room_of_the_map_exists(self):
        missing = [r.path for r in read_rooms().values() if r.state == "here" and not (SOURCE / r.path).exists()]
        self.assertEqual(missing, [], "docs/architecture.md maps rooms that the tree does not have")

    def test_nothing_that_is_to_come_is_here(self):
        early = [r.path for r in read_rooms().values() if r.state == "to come" and (SOURCE / r.path).exists()]
        self.assertEqual(early, [], "docs/architecture.md calls rooms to come that the tree has")

    def test_every_state_is_known(self):
        odd = {r.path: r.state for r in read_rooms().values() if r.state not in ("here", "to come")}
        self.assertEqual(odd, {})

    def test_every_source_file_is_in_a_room(self):
        rooms = read_rooms()
        lost = [f.as_posix() for f in tree_files() if f.suffix in SOURCE_SUFFIXES and room_of(f, rooms) is None]
        self.assertEqual(lost, [], "source files outside every room of docs/architecture.md")

    def test_the_top_level_is_seven_directories(self):
        top = {f.parts[0] for f in tree_files() if len(f.parts) > 1 and not f.parts[0].startswith(".")}
        self.assertEqual(top, {"core", "plugins", "sdk", "compiler", "tools", "tests", "docs"})

    def test_every_dependency_is_a_room(self):
        rooms = read_rooms()
        unknown = [
            f"{room.path} -> {name}"
            for room in rooms.values()
            for name in room.depends
            if name != "*" and not any(p == name or p.startswith(name + "/") for p in rooms)
        ]
        self.assertEqual(unknown, [])

    def test_core_and_compiler_are_apart_in_the_map(self):
        for room in read_rooms().values():
            if room.path.startswith(("core", "plugins", "sdk")):
                reached = [n for n in room.depends if n.startswith("compiler") or n == "*"]
                self.assertEqual(reached, [], room.path)
            if room.path.startswith(("compiler", "plugins", "sdk")):
                reached = [n for n in room.depends if n.startswith("core") or n == "*"]
                self.assertEqual(reached, [], room.path)


class Includes(unittest.TestCase):
    def test_rooms_include_only_what_the_map_allows(self):
        rooms = read_rooms()
        broken = []
        for file, room, _, name, target in includes():
            other = room_of(target, rooms) if target else None
            if room and other and not may_depend(room, other):
                broken.append(f"{file}: includes {name} of {other.path}; {room.path} may not")
        self.assertEqual(broken, [])

    def test_public_headers_include_only_c_standard_headers(self):
        broken = []
        for file, _, _, name, _ in includes():
            if file.as_posix().startswith("sdk/include/") and name not in C_STANDARD_HEADERS:
                if not (SOURCE / "sdk" / "include" / name).is_file():
                    broken.append(f"{file}: includes {name}")
        self.assertEqual(broken, [])

    def test_only_the_compiler_includes_llvm(self):
        allowed = ("compiler/", "tests/")
        broken = [
            f"{file}: includes {name}"
            for file, _, _, name, _ in includes()
            if LLVM_INCLUDE.match(name) and not file.as_posix().startswith(allowed)
        ]
        self.assertEqual(broken, [])


def needed_libraries(path):
    text = subprocess.run(["readelf", "-d", str(path)], capture_output=True, text=True, check=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.+)\]", text)


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


class Rules(unittest.TestCase):
    def test_what_is_of_one_machine_stays_in_its_folder(self):
        of_a_machine = re.compile(r"\b(LLVM|NVVM|ROCDL|spirv)::|\bLlvmKernelBuilder\b")
        of_a_family = re.compile(r'"(cpu|cuda|hip|level_zero|x86[-_]64|sm_\d+)')
        for path in tree_files():
            parts = path.parts
            if parts[0] != "compiler" or path.suffix not in C_SUFFIXES or parts[1] not in ("ir", "stage", "passes", "targets"):
                continue
            text = (SOURCE / path).read_text(encoding="utf-8")
            is_shared = parts[1] != "targets" or (len(parts) == 3 and not parts[2].startswith("llvm_"))
            if is_shared:
                self.assertEqual(of_a_machine.findall(text), [], path)
            if parts[1] != "targets":
                self.assertEqual(of_a_family.findall(text), [], path)

    def test_every_rule_that_is_cited_is_written_down(self):
        known = set(re.findall(r"^- \*\*(HD-[A-Z]-\d\d)\*\*", (SOURCE / "docs" / "abi.md").read_text(), re.MULTILINE))
        self.assertTrue(known)
        unknown = set()
        for file in tree_files():
            if file.suffix in C_SUFFIXES | {".toml"}:
                text = (SOURCE / file).read_text(encoding="utf-8", errors="replace")
                unknown |= {f"{file}: {rule}" for rule in re.findall(r"HD-[A-Z]-\d\d", text) if rule not in known}
        self.assertEqual(sorted(unknown), [])


class Drivers(unittest.TestCase):
    def test_no_two_have_six_equal_lines_in_a_row(self):
        """What two drivers have alike belongs in sdk/cpp. Comments, includes and empty lines do not count."""
        runs = {}
        for path in sorted(tree_files()):
            if path.parts[0] != "plugins" or path.parts[1] == "allocators" or path.suffix not in C_SUFFIXES:
                continue
            lines = [(number, line.strip()) for number, line in enumerate((SOURCE / path).read_text(encoding="utf-8").splitlines(), 1)]
            lines = [(number, line) for number, line in lines if line and not line.startswith(("//", "#include"))]
            for i in range(len(lines) - 5):
                runs.setdefault(tuple(line for _, line in lines[i:i + 6]), []).append((path.parts[1], f"{path}:{lines[i][0]}"))
        equal = [[place for _, place in places] for places in runs.values() if len({driver for driver, _ in places}) > 1]
        self.assertGreater(len(runs), 3000)
        self.assertEqual(equal, [])


class Linking(unittest.TestCase):
    def test_no_runtime_file_links_llvm(self):
        built = {}
        for folder in ("bin", "lib", "lib/heddle/plugins.d", "libexec"):
            for path in sorted((BUILD / folder).glob("*")) if (BUILD / folder).is_dir() else []:
                if path.is_file() and is_elf(path):
                    built[path.name] = needed_libraries(path)
        if not built:
            self.skipTest(f"nothing is built in {BUILD}")
        allowed = read_llvm_programs()
        broken = []
        for name in built:
            reached, todo = set(), [name]
            while todo:
                for library in built.get(todo.pop(), []):
                    if library not in reached:
                        reached.add(library)
                        todo.append(library)
            found = sorted(library for library in reached if LLVM_LIBRARY.match(library))
            if found and re.sub(r"(\.so)[.0-9]*$", r"\1", name) not in allowed:
                broken.append(f"{name} reaches {', '.join(found)}")
        self.assertEqual(broken, [])


class Conventions(unittest.TestCase):
    def test_every_source_file_opens_with_its_license(self):
        broken = []
        for file in tree_files():
            if file.suffix in SOURCE_SUFFIXES or file.name == "CMakeLists.txt" or file.suffix in (".cmake", ".sh"):
                head = (SOURCE / file).read_text(encoding="utf-8", errors="replace")[:300]
                if "SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception" not in head:
                    broken.append(file.as_posix())
        self.assertEqual(broken, [])

    def test_no_name_says_nothing(self):
        broken = [f.as_posix() for f in tree_files() if any(EMPTY_NAMES.search(p.split(".")[0]) for p in f.parts)]
        self.assertEqual(broken, [])

    def test_nothing_generated_lies_in_the_tree(self):
        broken = [f.as_posix() for f in tree_files() if GENERATED.search(f.name)]
        self.assertEqual(broken, [])


if __name__ == "__main__":
    unittest.main()
