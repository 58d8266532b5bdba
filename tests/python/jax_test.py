# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""heddle.jax.jit gives what jax.jit gives: trees, static and donated arguments, gradients, random keys, arrays without copies, and modules that another
process finds. Skipped where jax is not installed (pip install jax)."""
import importlib.util
import os
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings
from unittest import mock

import numpy as np

import heddle
import heddle.jax

HAS_JAX = importlib.util.find_spec("jax") is not None
CACHE = tempfile.TemporaryDirectory(prefix="heddle-jax-test-")
os.environ["HEDDLE_JAX_CACHE"] = CACHE.name
if HAS_JAX:
    import jax
    import jax.numpy as jnp


def tearDownModule():
    CACHE.cleanup()


class WithoutJax(unittest.TestCase):
    def test_import_does_not_import_jax(self):
        subprocess.run([sys.executable, "-c", "import sys, heddle, heddle.jax; assert 'jax' not in sys.modules"], check=True)

    def test_the_error_names_jax(self):
        with mock.patch.dict(sys.modules, {"jax": None}), self.assertRaisesRegex(heddle.NotFoundError, "package jax cannot be imported .*; pip install jax"):
            heddle.jax.jit(lambda x: x)


@unittest.skipUnless(HAS_JAX, "jax is not installed; pip install jax")
class Jit(unittest.TestCase):
    def check(self, function, *args, **options):
        ours, theirs = heddle.jax.jit(function, **options)(*args), jax.jit(function, **options)(*args)
        self.assertEqual(jax.tree.structure(ours), jax.tree.structure(theirs))
        for got, wanted in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
            self.assertEqual((got.shape, got.dtype), (wanted.shape, wanted.dtype))
            if jnp.issubdtype(got.dtype, jax.dtypes.prng_key):
                got, wanted = jax.random.key_data(got), jax.random.key_data(wanted)
            np.testing.assert_allclose(np.asarray(got).astype("complex128" if got.dtype.kind == "c" else "float64"),
                                       np.asarray(wanted).astype("complex128" if got.dtype.kind == "c" else "float64"), rtol=2e-5, atol=1e-6)
        return ours

    def test_trees_types_and_numbers(self):
        self.check(lambda x, y: {"a": jnp.tanh(x @ y["w"]), "b": (x.sum(), None)}, jnp.ones((3, 4)), {"w": jnp.ones((4, 2)) * 0.1})
        self.check(lambda x, n: x * n + 1, np.arange(6).reshape(2, 3).T, 2)
        self.check(lambda x: (x.astype(jnp.bfloat16), x > 1, x.astype(jnp.int8)), jnp.arange(3.0))
        self.check(lambda z: (z * z.conj() + 1, z.real), jnp.array([1 + 2j, 3 - 1j]))
        self.check(lambda key: (jax.random.split(key), jax.random.normal(key, (3,))), jax.random.key(3))
        self.check(lambda x: (x, x, 3.0), jnp.arange(3))
        self.assertIsNone(heddle.jax.jit(lambda x: None)(1.0))

    def test_gradients(self):
        def loss(weights, x, y):
            return ((jnp.tanh(x @ weights["a"] + weights["b"]) - y) ** 2).mean()

        weights = {"a": jnp.linspace(-1, 1, 12).reshape(4, 3), "b": jnp.ones(3)}
        self.check(jax.value_and_grad(loss), weights, jnp.linspace(0, 1, 8).reshape(2, 4), jnp.ones((2, 3)))
        by_integers = heddle.jax.jit(jax.grad(lambda x, i: (x * i).sum(), argnums=(0, 1), allow_int=True))
        of_x, of_i = by_integers(jnp.ones(3), jnp.arange(3))
        self.assertEqual((of_x.tolist(), of_i.dtype), ([0, 1, 2], jax.dtypes.float0))
        inner = heddle.jax.jit(lambda x: jnp.sin(x).sum())
        np.testing.assert_allclose(jax.grad(inner)(jnp.arange(3.0)), jnp.cos(jnp.arange(3.0)), rtol=1e-5)  # JAX traces through it
        self.check(jax.vmap(jax.grad(lambda x: inner(x) ** 2)), jnp.arange(6.0).reshape(2, 3))

    def test_static_arguments(self):
        traced = []

        @heddle.jax.jit
        def dynamic(x):
            return x + 1

        def power(x, n, *, scale=1.0):
            traced.append(n)
            return scale * x**n

        x = jnp.arange(4.0)
        by_name = heddle.jax.jit(power, static_argnames=("n", "scale"))
        for n in (2, 3, 2):
            np.testing.assert_allclose(by_name(x, n, scale=2.0), 2 * np.arange(4.0) ** n)
        np.testing.assert_allclose(by_name(x, n=3), np.arange(4.0) ** 3)
        self.assertEqual((by_name.cache_size(), len(traced)), (3, 3))
        by_number = heddle.jax.jit(power, static_argnums=1)
        np.testing.assert_allclose(by_number(x, 2), np.arange(4.0) ** 2)
        np.testing.assert_allclose(by_number(x, n=2), np.arange(4.0) ** 2)  # the number names it, too
        with self.assertRaisesRegex(heddle.ArgumentTypeError, "a static argument cannot be hashed"):
            by_number(x, [2])
        for one in (x, x.astype(jnp.int32), jnp.ones((4, 1)), 1, 1.0, True):
            dynamic(one)
        self.assertEqual(dynamic.cache_size(), 6)
        dynamic.clear_cache()
        self.assertEqual(dynamic.cache_size(), 0)

    def test_donated_arrays_are_gone_and_their_memory_is_used(self):
        step = heddle.jax.jit(lambda w, x: (w - 0.5 * x, (w * x).sum()), donate_argnums=0)
        weights, x = jnp.zeros((64, 64)), jnp.ones((64, 64))
        places = set()
        for count in range(1, 5):
            old = weights
            weights, _ = step(weights, x)
            places.add(weights.unsafe_buffer_pointer())
            self.assertTrue(old.is_deleted())
            np.testing.assert_array_equal(weights, np.full((64, 64), -0.5 * count, np.float32))
        self.assertEqual(len(places), 1)
        self.assertFalse(x.is_deleted())
        with self.assertRaisesRegex(heddle.FailedPreconditionError, "was deleted, or donated to an earlier call"):
            step(old, x)
        view = np.asarray(weights)  # as long as it exists, the memory is not overwritten
        newer, _ = step(weights, x)
        self.assertEqual((view[0, 0], newer[0, 0]), (-2.0, -2.5))
        del view
        # By name, and where no result can take the memory.
        total = heddle.jax.jit(lambda values: values.sum(), donate_argnames="values")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # JAX says that no result takes it
            self.assertEqual(total(values=x), 4096)
        self.assertTrue(x.is_deleted())

    def test_arrays_are_not_copied(self):
        double = heddle.jax.jit(lambda x: x * 2)
        x = jnp.ones(4096)
        result = double(x)
        compiled = next(iter(double._compiled.values()))
        self.assertEqual(compiled._function.transfers, {"bytes_in_place": 16384, "bytes_copied": 0})
        self.assertIs(type(result), type(x))
        self.assertEqual(result.devices(), x.devices())

    def test_a_function_calls_itself_while_jax_runs_it(self):
        def table(x):
            return x * (1 if x.ndim == 1 else made(np.ones(3, "float32"))[0])

        made = heddle.jax.jit(table)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            caller = threading.Thread(target=lambda: results.append(made(jnp.ones((2, 3)))), daemon=True)
            results = []
            caller.start()
            caller.join(120)
        self.assertEqual([one.tolist() for one in results], [[[1.0] * 3] * 2])

    def test_methods_and_threads(self):
        class Model:
            def __init__(self, factor):
                self.factor = factor

            @heddle.jax.jit
            def apply(self, x):
                return x * self.factor

            apply = heddle.jax.jit(apply.__wrapped__, static_argnums=0)

        model, results = Model(3.0), []
        threads = [threading.Thread(target=lambda: results.append(model.apply(jnp.arange(3.0)))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([one.tolist() for one in results], [[0.0, 3.0, 6.0]] * 4)
        self.assertEqual(Model.apply.cache_size(), 1)

    def test_errors_name_what_is_not_there(self):
        with self.assertRaisesRegex(heddle.CompileError, "'stablehlo.custom_call' at 'geqrf' failed: it calls 'lapack_sgeqrf_ffi'"):
            heddle.jax.jit(jnp.linalg.qr)(jnp.ones((3, 3)))
        with self.assertRaisesRegex(heddle.UnimplementedError, "JAX does not export it as StableHLO: .*callback"):
            heddle.jax.jit(lambda x: jax.pure_callback(np.sin, x, x))(jnp.ones(3))
        with self.assertRaisesRegex(heddle.ArgumentTypeError, "an argument is an object of class object"):
            heddle.jax.jit(lambda x: x)(object())
        with self.assertRaisesRegex(heddle.ArgumentTypeError, "a function is needed, got int"):
            heddle.jax.jit(3)

    def test_another_process_compiles_nothing(self):
        script = ("import sys, heddle.jax, heddle._compiled_texts as texts, jax.numpy as jnp\n"
                  "if sys.argv[1] == 'again':\n    texts._compile = None\n"
                  "print(heddle.jax.jit(lambda x: jnp.cos(x) + 4)(jnp.zeros(2)).tolist())\n")
        for run in ("first", "again"):
            done = subprocess.run([sys.executable, "-c", script, run], capture_output=True, text=True, check=True)
            self.assertEqual(done.stdout, "[5.0, 5.0]\n")


if __name__ == "__main__":
    unittest.main()
