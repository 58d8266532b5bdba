# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""heddle.jax.jit on a GPU: what jax.jit gives there, arrays that stay on the device, gradients, donation in flat memory."""
import os
import pathlib
import unittest

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # JAX takes most of the memory otherwise

from gpu import GpuTestCase
import python_package  # noqa: F401  it finds the package
import jax
import jax.numpy as jnp
import numpy as np

import heddle
import heddle.jax

jax.config.update("jax_default_matmul_precision", "highest")


class Jax(GpuTestCase):
    def setUp(self):
        super().setUp()
        os.environ["HEDDLE_JAX_CACHE"] = str(pathlib.Path(self.folder) / "jax")
        if jax.default_backend() != "gpu":
            self.skipTest("SKIP: this JAX has no GPU")

    def check(self, function, *args, **options):
        ours, theirs = heddle.jax.jit(function, **options)(*args), jax.jit(function, **options)(*args)
        self.assertEqual(jax.tree.structure(ours), jax.tree.structure(theirs))
        for got, wanted in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
            self.assertEqual((got.shape, got.dtype, got.devices()), (wanted.shape, wanted.dtype, wanted.devices()))
            np.testing.assert_allclose(np.asarray(got, "float64"), np.asarray(wanted, "float64"), rtol=3e-5, atol=1e-5)

    def test_gradients_attention_convolution_and_scan(self):
        key = jax.random.split(jax.random.key(5), 8)

        def loss(weights, x, y):
            return ((jnp.tanh(x @ weights["a"] + weights["b"]) - y) ** 2).mean()

        weights = {"a": jax.random.normal(key[0], (64, 32)), "b": jnp.ones(32)}
        self.check(jax.value_and_grad(loss), weights, jax.random.normal(key[1], (128, 64)), jnp.ones((128, 32)))

        def attention(q, k, v):
            return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(jnp.einsum("bhqd,bhkd->bhqk", q, k) / 8), v)

        self.check(attention, *(jax.random.normal(key[2 + i], (2, 4, 128, 64)) for i in range(3)))
        self.check(lambda x, w: jax.nn.relu(jax.lax.conv_general_dilated(x, w, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))),
                   jax.random.normal(key[5], (2, 32, 32, 16)), jax.random.normal(key[6], (3, 3, 16, 32)))
        self.check(lambda x: jax.lax.scan(lambda c, one: (c * 0.9 + one, c.sum()), jnp.zeros(16), x), jax.random.normal(key[7], (20, 16)))

    def test_arrays_pass_without_a_copy_through_the_host(self):
        double = heddle.jax.jit(lambda x: x * 2 + 1)
        x = jnp.arange(1 << 22, dtype=jnp.float32)
        np.testing.assert_array_equal(np.asarray(double(x)), np.asarray(x) * 2 + 1)
        chained = double(double(jax.jit(jnp.sin)(x)))  # in order with JAX's own work
        np.testing.assert_allclose(np.asarray(chained), np.sin(np.arange(1 << 22, dtype=np.float32).astype(np.float64)) * 4 + 3, rtol=1e-5, atol=1e-4)
        self.assertEqual({one.platform for one in chained.devices()}, {"gpu"})

    def test_donated_arrays_are_updated_in_place(self):
        step = heddle.jax.jit(lambda w, g: (w - 0.5 * g, w.mean()), donate_argnums=0)
        weights, gradient = jnp.zeros((1024, 1024)), jnp.ones((1024, 1024))
        places = set()
        for count in range(1, 6):
            old = weights
            weights, mean = step(weights, gradient)
            self.assertAlmostEqual(float(mean), -0.5 * (count - 1))
            if count > 1:
                places.add(weights.unsafe_buffer_pointer())
                self.assertTrue(old.is_deleted())
        self.assertEqual(len(places), 1)
        np.testing.assert_array_equal(np.asarray(weights), np.full((1024, 1024), -2.5, np.float32))

    def test_a_device_by_name(self):
        result = heddle.jax.jit(lambda x: x + 1, device=self.device)(np.arange(8, dtype=np.float32))
        self.assertEqual(np.asarray(result).tolist(), list(range(1, 9)))


if __name__ == "__main__":
    unittest.main()
