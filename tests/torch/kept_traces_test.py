# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Traces and modules on disk, for several hosts, users and processes: on a disk that is full or can only be read, and after a process that was ended while
it wrote. Skipped without PyTorch (tools/dev/setup --torch)."""
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock
import warnings

try:
    import torch
except ImportError:
    torch = None
else:
    from heddle import _compiled_texts
    from heddle.torch import _cache, _graph_cache, _traces

PROGRAM = """
import os, pathlib, resource, signal, sys, time
import torch, heddle.torch
from torch._dynamo.utils import counters
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4))
x = torch.ones(3, 8).cumsum(0)
folder = pathlib.Path(sys.argv[1])
(folder / f"{os.getpid()}.ready").touch()
while not (folder / "go").exists():
    time.sleep(0.01)
if (folder / "limit").exists():  # of the size of files
    size, what = (folder / "limit").read_text().split()
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(size), resource.RLIM_INFINITY))
    if what == "end":
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
result = torch.compile(model, backend=heddle.torch.backend)(x)
result.square().sum().backward()
torch.testing.assert_close(result, model(x), rtol=1e-4, atol=1e-4)
graphs = heddle.torch.graphs()
print("COUNTS", counters["heddle"]["trace_found"], counters["heddle"]["trace_saved"], sum(len(one.fallbacks) for one in graphs))
"""
SET_HOST = "import os, socket, sys; socket.sethostname(sys.argv[1]); os.execv(sys.argv[2], sys.argv[2:])"
# Mounts a file system in memory at the first argument, with the options of the second, copies the fourth there and mounts it again with the third.
MOUNT = """
set -e
mount -t tmpfs -o "$2" none "$1"
[ -z "$4" ] || cp -a "$4"/. "$1"
[ -z "$3" ] || mount -o "remount,$3" "$1"
shift 4
exec "$@"
"""


def namespaces(flags):
    """How to begin a command that has these to itself; None if this system does not allow it."""
    for user in ("", "r"):
        command = ["unshare", f"-{user}{flags}"]
        with contextlib.suppress(OSError):
            inner = ["mount", "-t", "tmpfs", "none", "/mnt"] if "m" in flags else [sys.executable, "-c", SET_HOST, "one", "/bin/true"]
            if subprocess.run([*command, *inner], capture_output=True, check=False).returncode == 0:
                return command
    return None


@unittest.skipIf(torch is None, "PyTorch is not installed; tools/dev/setup --torch installs it")
@unittest.skipUnless(torch is None or _traces.is_possible(), "this version of PyTorch has other functions than those that are replaced")
class Processes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.made = tempfile.TemporaryDirectory(prefix="heddle-torch-test-")
        cls.addClassCleanup(cls.made.cleanup)
        cls.all = pathlib.Path(cls.made.name)
        cls.program = cls.all / "program.py"
        cls.program.write_text(PROGRAM, encoding="utf-8")
        os.utime(cls.program, (1e9, 1e9))
        time.sleep(0.05)  # the kernel says in hundredths of a second when a process began

    def clear_signals(self):
        self.signals.mkdir(exist_ok=True)
        for one in self.signals.iterdir():
            one.unlink()

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=self.all))
        self.cache = self.folder / "cache"
        self.signals = self.all / "signals"  # an argument, so it is the same folder in each test
        self.clear_signals()
        (self.signals / "go").touch()

    def environment(self, **more):
        named = {"HEDDLE_TORCH_CACHE": str(self.all / "modules"), "TORCHINDUCTOR_CACHE_DIR": str(self.cache), "TMPDIR": str(self.folder),
                 "PWD": str(self.all), **more}  # as a shell sets it
        return {**{name: value for name, value in os.environ.items() if name not in ("HEDDLE_TORCH_KEEP_TRACES", "PYTHONHASHSEED")}, **named}

    def start(self, before=(), **more):
        return subprocess.Popen([*before, sys.executable, "-B", str(self.program), str(self.signals)], env=self.environment(**more), text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.all)

    def counts(self, process):
        """Traces that were found and saved, and operators that ran in PyTorch."""
        output, errors = process.communicate(timeout=600)
        self.assertEqual(process.returncode, 0, errors)
        self.errors = errors
        return tuple(int(one) for line in output.splitlines() if line.startswith("COUNTS") for one in line.split()[1:])

    def traces(self):
        return sorted(one for one in self.cache.glob("heddle-traces/*/*"))

    def mounted(self, options, then="", content=""):
        self.cache.mkdir()
        command = namespaces("m")
        if command is None:
            self.skipTest("this system allows no mounts")
        return [*command, "sh", "-c", MOUNT, "sh", str(self.cache), options, then, str(content)]

    def test_names_of_hosts(self):
        """A program finds its traces under another name of the host, but none of functions that depend on the name."""
        namespace, printed = namespaces("u"), []
        for name in ("1", "1", "22"):
            before = [] if namespace is None else [*namespace, sys.executable, "-c", SET_HOST, f"host{name}"]
            done = subprocess.run([*before, sys.executable, "-B", str(pathlib.Path(__file__).with_name("programs_of_hosts.py"))], capture_output=True,
                                  text=True, check=False, cwd=self.all, env=self.environment(HOSTNAME=name))
            self.assertEqual(done.returncode, 0, done.stderr)
            printed.append({name: more for name, *more in (json.loads(line[5:]) for line in done.stdout.splitlines() if line.startswith("CASE "))})
        first, again, other = printed
        for name in first:
            self.assertIs(True, first[name][2] and again[name][2] and other[name][2], name)
            self.assertEqual(again[name][0], first[name][1], name)
        self.assertGreater(sum(one[1] for one in first.values()), 18)
        of_the_system = set() if namespace else {"node", "another_name_of_node", "node_at_first", "uname_of_platform"}
        self.assertEqual({name for name, one in other.items() if one[0]}, {"nothing_of_it"} | of_the_system)

    def test_processes_at_the_same_time(self):
        for number in (2, 8):
            with self.subTest(processes=number):
                self.cache = self.folder / f"cache{number}"
                modules = str(self.folder / f"modules{number}")
                self.clear_signals()
                processes = [self.start(HEDDLE_TORCH_CACHE=modules) for _ in range(number)]
                end = time.monotonic() + 300
                while len(list(self.signals.glob("*.ready"))) < number and time.monotonic() < end:
                    time.sleep(0.05)
                (self.signals / "go").touch()
                counts = [self.counts(one) for one in processes]
                self.assertTrue(all(found + saved == 1 and in_torch == 0 for found, saved, in_torch in counts), counts)
                self.assertEqual(len(self.traces()), 1)
                self.assertEqual(sorted(one.suffix for one in pathlib.Path(modules).iterdir()), [".heddle", ".heddle"])
                self.assertEqual(self.counts(self.start(HEDDLE_TORCH_CACHE=modules)), (1, 0, 0))

    def test_a_process_that_is_ended_while_it_writes(self):
        self.assertEqual(self.counts(self.start()), (0, 1, 0))
        (trace,) = self.traces()
        others = [one.stat().st_size for one in self.cache.rglob("*") if one.is_file() and one != trace]
        limit = trace.stat().st_size * 9 // 10  # the same trace is some bytes larger or smaller in another process, by addresses and orders of sets
        self.assertLess(max(others), limit)
        for what in ("fail", "end"):  # a write that fails, as on a full disk, and one that ends the process
            self.cache.rename(self.folder / f"before-{what}")
            (self.signals / "limit").write_text(f"{limit} {what}", encoding="utf-8")
            process = self.start()
            if what == "fail":
                self.assertEqual(self.counts(process), (0, 0, 0))
                self.assertEqual(self.traces(), [])
        process.communicate(timeout=600)
        self.assertEqual(process.returncode, -signal.SIGXFSZ)
        (partial,) = self.traces()
        self.assertEqual((partial.name[0], partial.stat().st_size), (".", limit))
        os.utime(partial, (1e9, 1e9))
        (self.signals / "limit").unlink()
        self.assertEqual(self.counts(self.start()), (0, 1, 0))
        self.assertNotIn(partial, self.traces())
        self.assertEqual(self.counts(self.start()), (1, 0, 0))

    def test_a_disk_that_can_only_be_read(self):
        self.assertEqual(self.counts(self.start()), (0, 1, 0))
        filled = self.folder / "filled"
        self.cache.rename(filled)
        self.assertEqual(self.counts(self.start(self.mounted("mode=755", "ro", filled))), (1, 0, 0))
        self.cache.rmdir()
        self.assertEqual(self.counts(self.start(self.mounted("ro,mode=755"))), (0, 0, 0))

    def test_a_full_disk(self):
        self.assertEqual(self.counts(self.start(self.mounted("size=16k,mode=755"))), (0, 0, 0))
        graphs = str(self.folder / "graphs")
        self.cache.rmdir()
        self.assertEqual(self.counts(self.start(self.mounted("size=16k,mode=755"), HEDDLE_TORCH_CACHE=str(self.cache), TORCHINDUCTOR_CACHE_DIR=graphs)),
                         (0, 1, 0))
        self.assertIn(f"writing modules to '{self.cache}' failed", self.errors)
        self.assertIn("No space left on device", self.errors)


@unittest.skipIf(torch is None, "PyTorch is not installed; tools/dev/setup --torch installs it")
class Files(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory(prefix="heddle-torch-test-")
        self.addCleanup(made.cleanup)
        self.folder = pathlib.Path(made.name)

    def test_a_write_that_fails(self):
        path = self.folder / "entry"
        _cache.write(path, b"one")
        with unittest.mock.patch("os.replace", side_effect=OSError("no")):
            self.assertRaises(OSError, _cache.write, path, b"two")
        self.assertEqual([one.name for one in self.folder.iterdir()], ["entry"])
        self.assertEqual(path.read_bytes(), b"one")

    def test_what_was_left(self):
        for name, seconds in ((".old.tmp", 7200), (".new.tmp", 10)):
            (self.folder / name).write_bytes(b"a part")
            os.utime(self.folder / name, (time.time() - seconds,) * 2)
        (self.folder / "gone").symlink_to(self.folder / "nothing")
        _cache.write(self.folder / "entry", b"one")
        self.assertEqual(sorted(one.name for one in self.folder.iterdir()), [".new.tmp", "entry", "gone"])
        self.assertEqual([one.name for one in _traces._candidates(self.folder)], ["entry"])
        self.assertEqual(_traces._candidates(self.folder / "nothing"), [])

    def test_modules_where_nothing_can_be_written(self):
        text = '"builtin.module"() ({ "func.func"() <{function_type = (tensor<2xf32>) -> tensor<2xf32>, sym_name = "main", ' \
               'arg_attrs = [{torch.name = "x"}]}> ({ ^bb0(%0: tensor<2xf32>): %1 = "aten.sin.default"(%0) {operands = ["self"], extents = [[2]]} ' \
               ': (tensor<2xf32>) -> tensor<2xf32> loc("sin")\n"func.return"(%1) : (tensor<2xf32>) -> () }) : () -> () }) {torch.graph = "2.13.0"} ' \
               ': () -> ()'
        file = self.folder / "file"
        file.write_bytes(b"")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = [_compiled_texts.compiled(text, "cpu", (), file / "modules") for _ in range(2)]
        self.assertEqual([is_new for _, is_new in found], [True, False])
        self.assertEqual(found[0][0], found[1][0])
        self.assertTrue(os.path.exists(found[0][0]))
        self.assertEqual(len(caught), 1)
        self.assertIn(f"writing modules to '{file / 'modules'}' failed", str(caught[0].message))
        self.assertIn("Not a directory", str(caught[0].message))

    def test_a_folder_of_another_user(self):
        """Entries are unpickled only if no other user, but root, could have written them."""
        reason = _graph_cache.others_may_write
        with unittest.mock.patch.dict(os.environ, TORCHINDUCTOR_CACHE_DIR=str(self.folder)):
            self.assertIsNone(reason())
            user = os.getuid()
            with unittest.mock.patch("os.getuid", return_value=user + 1):
                self.assertEqual(reason() is None, user == 0)
            self.folder.chmod(0o777)
            self.assertIn("other users may write", reason())
            self.folder.chmod(0o755)
            if os.getuid() == 0:
                os.chown(self.folder, 65534, -1)
                self.assertIn("other users may write", reason())


if __name__ == "__main__":
    unittest.main()
