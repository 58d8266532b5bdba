# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Graphs that AOTAutograd made are found by other processes, give what they gave, and are not taken for others: what a graph depends on is in its key, or the
graph is not kept. Skipped without PyTorch (tools/dev/setup --torch)."""
import contextlib
import contextvars
import copy
import gc
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import warnings

try:
    import torch
    from torch import nn
except ImportError:
    torch = None
else:
    import heddle.torch
    from heddle.torch import _calls, _graph_cache, _tracing
    from torch._dynamo import config, guards, symbolic_convert
    from torch._dynamo.utils import counters
    from torch._dynamo.variables import higher_order_ops
    from torch.utils import _traceback

CACHE = tempfile.TemporaryDirectory(prefix="heddle-torch-test-")
os.environ["HEDDLE_TORCH_CACHE"] = os.path.join(CACHE.name, "modules")
os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(CACHE.name, "graphs")
os.environ["HEDDLE_TORCH_KEEP_TRACES"] = "0"  # or Dynamo would ask for no graph
PROCESS = """
import sys
import torch, heddle.torch
from torch._dynamo.utils import counters
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.BatchNorm1d(16), torch.nn.Linear(16, 4))
compiled = torch.compile(model, backend=heddle.torch.backend)
compiled(torch.ones(3, 8).cumsum(0)).square().sum().backward()
print(counters["aot_autograd"]["autograd_cache_hit"], sum(one.compiled for one in heddle.torch.graphs()))
print(sorted({"torch._inductor.scheduler", "torch.distributed.tensor.experimental"} & set(sys.modules)))
print([float(one.grad.double().sum()) for one in model.parameters()] + [float(one.double().sum()) for one in model.buffers()])
"""
STAND_INS = """
import sys
import torch
from heddle.torch._tracing import without_inductor
with without_inductor():
    from torch._inductor.debug import enable_aot_logging
    with enable_aot_logging():
        print("torch._inductor.ir" in sys.modules)
    from torch._inductor.debug import DebugContext
    import torch._inductor.codegen.wrapper as wrapper
    print(DebugContext.__module__, sys.modules[DebugContext.__module__].DebugContext is DebugContext)
print(wrapper.PythonWrapperCodegen.__module__, sys.modules[wrapper.__name__].PythonWrapperCodegen is wrapper.PythonWrapperCodegen)
"""


def tearDownModule():
    CACHE.cleanup()


def entries():
    return [one for one in pathlib.Path(CACHE.name, "graphs", "aotautograd").glob("*/*") if one.is_file()]


def scaled(factor):
    return lambda x: torch.sin(x * factor) @ x.t()


def printing(x):
    torch.ops.aten._print("")
    return x * 2


@unittest.skipIf(torch is None, "PyTorch is not installed; tools/dev/setup --torch installs it")
class GraphCache(unittest.TestCase):
    def setUp(self):
        self.forget()
        torch.manual_seed(3)
        self.x = torch.randn(6, 6)

    def forget(self):
        torch._dynamo.reset()
        counters.clear()
        heddle.torch.clear()

    def first(self, function, *arguments, **options):
        """The result of a call of the function as a process that has compiled nothing makes it, and whether the graph was on disk."""
        self.forget()
        result = torch.compile(function, backend=heddle.torch.backend, **options)(*arguments)
        return result, counters["aot_autograd"]["autograd_cache_hit"] > 0

    def is_found(self, function, *arguments, **options):
        result, found = self.first(function, *arguments, **options)
        torch.testing.assert_close(result, function(*arguments))
        return found

    def test_a_failure_of_the_compiler_is_not_kept(self):
        before = entries()
        failure = unittest.mock.patch.object(_calls.Interface, "compiled", side_effect=heddle.CompileError("it was killed"))
        with failure, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.testing.assert_close(torch.compile(scaled(7.5), backend=heddle.torch.backend)(self.x), scaled(7.5)(self.x))
        self.assertEqual(entries(), before)
        self.forget()
        torch.compile(scaled(7.5), backend=heddle.torch.backend)(self.x)
        self.assertEqual([one.fallbacks for one in heddle.torch.graphs()], [[]])
        self.assertEqual(len(entries()), len(before) + 1)

    def test_another_process(self):
        printed = []
        for seed in ("1", "2"):  # of Python's hashes, which must not be in a key
            done = subprocess.run([sys.executable, "-B", "-c", PROCESS], capture_output=True, text=True, check=False, env={**os.environ, "PYTHONHASHSEED": seed})
            self.assertEqual(done.returncode, 0, done.stderr)
            printed.append(done.stdout.splitlines())
        self.assertEqual(printed[0][0], "0 2")
        self.assertEqual(printed[1][0], "1 0")
        self.assertEqual(printed[1][1], "[]")  # what nothing needs is not imported
        self.assertEqual(printed[0][2], printed[1][2])

    def test_modules_in_whose_place_others_stand(self):
        done = subprocess.run([sys.executable, "-B", "-c", STAND_INS], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.split(), ["False", "torch._inductor.debug", "True", "torch._inductor.codegen.wrapper", "True"])

    def test_what_it_gives(self):
        self.assertFalse(self.is_found(scaled(2), self.x))
        before = heddle.torch.graphs()
        self.assertTrue(self.is_found(scaled(2), self.x))
        after = heddle.torch.graphs()
        self.assertEqual([(one.kind, one.nodes, one.modules) for one in before], [(one.kind, one.nodes, one.modules) for one in after])
        self.assertEqual([one.compiled for one in after], [0])

    def test_training(self):
        for batches in ((4, 4), (4, 5, 7)):
            found = []
            for _ in range(2):
                self.forget()
                torch.manual_seed(1)
                model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 2))
                eager = copy.deepcopy(model)
                compiled = torch.compile(model, backend=heddle.torch.backend, dynamic=len(batches) > 2)
                for size in batches:
                    given = torch.randn(size, 6)
                    for one in (compiled, eager):
                        one(given).square().sum().backward()
                found.append(counters["aot_autograd"]["autograd_cache_hit"])
                for ours, theirs in zip([*model.parameters(), *model.buffers()], [*eager.parameters(), *eager.buffers()]):
                    torch.testing.assert_close(ours, theirs)
                    if theirs.grad is not None:
                        torch.testing.assert_close(ours.grad, theirs.grad)
            self.assertEqual(found, [0, 1])
            self.assertFalse(torch._functorch.config.bundled_autograd_cache)

    def test_symbols_and_numbers(self):
        def function(x, n):
            return torch.cat([x, x[: x.shape[0] // 2]]) * n + x.shape[0] ** 2

        for found in (False, True):
            self.forget()
            compiled = torch.compile(function, backend=heddle.torch.backend, dynamic=True)
            for size, n in ((4, 3), (9, 5), (6, 2)):
                given = torch.randn(size, 3)
                torch.testing.assert_close(compiled(given, n), function(given, n))
            self.assertEqual(counters["aot_autograd"]["autograd_cache_hit"] > 0, found)

    def test_operators_of_pytorch(self):
        def function(x):
            return torch.sin(x @ x.t()) * torch.rand(6) + torch.bernoulli(torch.full((6,), 0.5))

        given = []
        for found in (False, True):
            heddle.torch.clear()
            torch._dynamo.reset()
            counters.clear()
            torch.manual_seed(7)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                given.append(torch.compile(function, backend=heddle.torch.backend)(self.x))
            self.assertEqual(counters["aot_autograd"]["autograd_cache_hit"] > 0, found)
            self.assertTrue(any("runs in PyTorch" in str(one.message) for one in caught), [str(one.message) for one in caught])
            self.assertTrue(heddle.torch.graphs()[0].fallbacks)
        torch.testing.assert_close(given[0], given[1], rtol=0, atol=0)

    def test_the_line_that_a_report_names(self):
        def function(x):
            return torch.sin(x) * torch.rand(6)

        def report():
            torch._dynamo.reset()
            with warnings.catch_warnings(), heddle.torch.report(caches=True) as made:
                warnings.simplefilter("ignore")
                torch.compile(function, backend=heddle.torch.backend)(self.x)
            return [(one.op, one.place.line) for graph in made.result().graphs for one in graph.fallbacks]

        self.forget()
        first = report()
        self.assertEqual(counters["aot_autograd"]["autograd_cache_hit"], 0)
        self.assertEqual(report(), first)
        self.assertEqual(counters["aot_autograd"]["autograd_cache_hit"], 1)
        self.assertEqual({line for _, line in first}, {function.__code__.co_firstlineno + 1})

    def test_what_is_in_the_key(self):
        def function(x):
            return torch.cumsum(x * torch.ones(6), 0) + torch.arange(6).sum() / 7

        self.assertFalse(self.is_found(function, self.x))
        self.assertTrue(self.is_found(function, self.x))
        self.assertFalse(self.is_found(function, self.x.t()))
        self.assertFalse(self.is_found(function, self.x.double()))
        self.assertFalse(self.is_found(function, self.x[:4]))
        self.assertFalse(self.is_found(function, self.x.clone().requires_grad_()))
        with torch.inference_mode():
            self.assertFalse(self.is_found(function, self.x.clone()))
        with torch.autocast("cpu", torch.bfloat16):
            self.assertFalse(self.is_found(function, self.x))
        self.addCleanup(torch.set_default_dtype, torch.float32)
        torch.set_default_dtype(torch.float64)
        self.assertFalse(self.is_found(function, self.x))
        torch.set_default_dtype(torch.float32)
        with torch.backends.mkldnn.flags(enabled=False):
            self.assertFalse(self.is_found(function, self.x))
        with unittest.mock.patch.object(_graph_cache, "identity", lambda: "another compiler"):
            self.assertFalse(self.is_found(function, self.x))
        self.assertTrue(self.is_found(function, self.x))
        self.assertFalse(self.is_found(scaled(3), self.x))
        self.assertFalse(self.is_found(scaled(4), self.x))

    def test_entries_of_another_backend(self):
        function = torch.nn.functional.softplus
        with unittest.mock.patch.object(_graph_cache, "_tag", lambda _: ""):  # as PyTorch's own backend asks
            self.assertFalse(self.is_found(lambda x: function(x) + 1, self.x))
        self.assertFalse(self.is_found(lambda x: function(x) + 1, self.x))

    def test_what_is_not_kept(self):
        with torch.library._scoped_library("heddle_graph_cache", "FRAGMENT") as library:
            library.define("twice(Tensor x) -> Tensor")
            library.impl("twice", lambda x: x * 2, "CompositeImplicitAutograd")
            for _ in range(2):
                self.assertFalse(self.is_found(lambda x: torch.ops.heddle_graph_cache.twice(x) + 1, self.x))
        for _ in range(2):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # it runs in PyTorch, with effects, which no process could name
                self.assertFalse(self.is_found(printing, self.x))
        with tempfile.TemporaryDirectory() as texts, unittest.mock.patch.dict(os.environ, {"HEDDLE_TORCH_TEXTS": texts}):
            self.is_found(scaled(5), self.x)
            self.is_found(scaled(5), self.x)
            self.assertEqual(counters["aot_autograd"]["autograd_cache_hit"], 0)
            self.assertEqual(len(os.listdir(texts)), 2)

        graph = torch.fx.Graph()
        x = graph.placeholder("x")
        graph.output((graph.call_function(torch.mul, (x, graph.get_attr("value"))),))
        module = torch.fx.GraphModule({"value": torch.ones(6)}, graph)
        self.assertIsNone(_graph_cache._reason_against(module))
        del module.value
        vars(module)["value"] = torch.ones(6)  # neither a parameter nor a buffer: PyTorch's key has its shape only
        self.assertIn("tensor value", _graph_cache._reason_against(module))
        folder = pathlib.Path(os.environ["TORCHINDUCTOR_CACHE_DIR"])
        folder.chmod(0o777)
        try:
            self.assertIn("other users", _graph_cache._reason_against(torch.fx.GraphModule({}, torch.fx.Graph())))
        finally:
            folder.chmod(0o700)

    def test_files_that_are_gone_or_damaged(self):
        known = set(entries())
        self.assertFalse(self.is_found(scaled(6), self.x))
        os.unlink(heddle.torch.graphs()[0].modules[0])
        self.assertTrue(self.is_found(scaled(6), self.x))
        self.assertEqual([one.compiled for one in heddle.torch.graphs()], [1])
        (entry,) = set(entries()) - known
        whole = entry.read_bytes()
        for damaged in (whole[:len(whole) // 2], b""):
            entry.write_bytes(damaged)
            self.assertFalse(self.is_found(scaled(6), self.x))
            for one in set(entries()) - known:
                one.unlink()
            entry.write_bytes(whole)
        self.assertTrue(self.is_found(scaled(6), self.x))

    def test_an_entry_of_another_version(self):
        self.assertFalse(self.is_found(scaled(8), self.x))
        real, calls = _graph_cache.identity, []

        def identity():
            calls.append(real())
            return calls[0] if len(calls) == 1 else "another"  # the key is the same

        with unittest.mock.patch.object(_graph_cache, "identity", identity):
            self.assertFalse(self.is_found(scaled(8), self.x))

    def test_without_pytorchs_cache(self):
        with contextlib.ExitStack() as stack:
            stack.enter_context(unittest.mock.patch.object(_graph_cache, "_IS_THERE", False))
            for _ in range(2):
                self.assertFalse(self.is_found(scaled(9), self.x))
        with torch._functorch.config.patch(enable_autograd_cache=False):
            for _ in range(2):
                self.assertFalse(self.is_found(scaled(9), self.x))


@unittest.skipIf(torch is None, "PyTorch is not installed; tools/dev/setup --torch installs it")
class Tracing(unittest.TestCase):
    """What is changed while Dynamo traces for this backend is changed back, and stays as it is for others."""

    def setUp(self):
        torch._dynamo.reset()
        self.seen = []

        @torch._dynamo.assume_constant_result
        def note():  # called while Dynamo traces
            self.seen.append(self.state())
            return 1

        self.note, self.function = note, lambda x: x + note()

    def state(self):
        """What is as it is for this backend."""
        frame, stacks = sys._getframe(), []
        while frame is not None:
            stacks.append(frame.f_code.co_stacksize)
            frame = frame.f_back
        return {"collects later": gc.get_threshold()[0] >= 1_000_000, "names nothing": symbolic_convert.get_funcname(__file__, 1) is None,
                "has a large piece of stack": max(stacks) >= 1 << 16, "shortens names once": hasattr(_traceback.shorten_filename, "cache_info"),
                "reads settings quickly": "__getattribute__" in vars(type(config)),
                "leaves distributed modules out": higher_order_ops.LocalMapWrappedHigherOrderVariable.should_wrap_in_hop.__module__ == _tracing.__name__,
                "does not flush caches": guards.profile_guard_manager.__module__ == _tracing.__name__}

    def check(self, backend, is_ours, function=None):
        before = self.state(), gc.get_threshold(), list(gc.callbacks)
        self.assertEqual(set(before[0].values()), {False})
        try:
            torch.compile(function or self.function, backend=backend)(torch.ones(2))
        finally:
            self.assertEqual((self.state(), gc.get_threshold(), list(gc.callbacks)), before)
        expected = dict.fromkeys(before[0], is_ours)
        if not isinstance(config._config["verbose"].user_override, contextvars.ContextVar):  # before 2.13
            expected["reads settings quickly"] = False
        self.assertEqual(self.seen, [expected])

    def test_of_this_backend(self):
        self.check(heddle.torch.backend, True)

    def test_of_another_backend(self):
        self.check("eager", False)

    def test_a_failure(self):
        def fails(x):
            self.note()
            raise ValueError("a sum")

        with self.assertRaisesRegex(ValueError, "a sum"):
            self.check(heddle.torch.backend, True, fails)

    def test_without_what_is_private(self):
        names = unittest.mock.patch.multiple(symbolic_convert, get_funcname=symbolic_convert.get_funcname), unittest.mock.patch.multiple(
            guards, profile_guard_manager=guards.profile_guard_manager)
        with names[0], names[1], unittest.mock.patch.object(_tracing, "_replace", side_effect=KeyError("it is gone")):
            torch.compile(self.function, backend=heddle.torch.backend)(torch.ones(2))
        self.assertEqual([one for one, is_so in self.seen[0].items() if is_so and one != "reads settings quickly"], ["collects later"])

    def test_collections_after_it(self):
        before = gc.get_threshold(), list(gc.callbacks)
        with config.patch(run_gc_after_compile=False):
            torch.compile(self.function, backend=heddle.torch.backend)(torch.ones(2))
        self.assertEqual((gc.get_threshold(), list(gc.callbacks)), before)

    def test_settings(self):
        found = []

        @torch._dynamo.assume_constant_result
        def look():
            with config.patch(verbose=True, recompile_limit=3):
                found.append((config.verbose, config.recompile_limit))
            found.append((config.verbose, config.recompile_limit, hasattr(config, "no_such_setting"), config.__name__))
            with unittest.mock.patch.object(config, "error_on_recompile", True):
                found.append(config.error_on_recompile)
            return 1

        torch.compile(lambda x: x + look(), backend=heddle.torch.backend)(torch.ones(2))
        self.assertEqual(found, [(True, 3), (False, config.recompile_limit, False, "torch._dynamo.config"), True])
        self.assertFalse(config.error_on_recompile)

    def test_collections_that_are_turned_off_stay_off(self):
        before = gc.get_threshold()
        gc.set_threshold(0)
        try:
            torch.compile(self.function, backend=heddle.torch.backend)(torch.ones(2))
            self.assertEqual(gc.get_threshold()[0], 0)
        finally:
            gc.set_threshold(*before)
        self.assertEqual([one["collects later"] for one in self.seen], [False])


if __name__ == "__main__":
    unittest.main()
