# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Functions that JAX exports, with seeded inputs, and the results that JAX computes on its CPU: for stablehlo_cases.py --jax. Each is a line of FUNCTIONS,
or of DYNAMIC if its shapes have symbols."""
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import export, lax

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_platforms", "cpu")


def normal(seed, *shape, dtype="float32"):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def whole(seed, *shape, low=-50, high=50, dtype="int32"):
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


def positive(seed, n, dtype="float64"):
    """A symmetric positive definite matrix."""
    matrix = normal(seed, n, n, dtype=dtype)
    return (matrix @ matrix.T + n * np.eye(n)).astype(dtype)


def mlp(params, x):
    for weight, bias in params[:-1]:
        x = jax.nn.gelu(x @ weight + bias)
    weight, bias = params[-1]
    return x @ weight + bias


def mlp_params(seed, *sizes):
    return [(normal(seed + i, a, b) / np.float32(np.sqrt(a)), np.zeros(b, np.float32)) for i, (a, b) in enumerate(zip(sizes, sizes[1:]))]


@functools.partial(jax.jit, donate_argnums=0)
def gradient_step(params, x, labels):
    def loss(params):
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(mlp(params, x)), labels[:, None], 1))
    value, gradient = jax.value_and_grad(loss)(params)
    return jax.tree_util.tree_map(lambda one, change: one - 0.1 * change, params, gradient), value


def adam_step(params, moments, count, x, y):
    gradient = jax.grad(lambda params: jnp.mean((mlp(params, x) - y) ** 2))(params)
    first = jax.tree_util.tree_map(lambda m, g: 0.9 * m + 0.1 * g, moments[0], gradient)
    second = jax.tree_util.tree_map(lambda v, g: 0.999 * v + 0.001 * g * g, moments[1], gradient)
    count = count + 1

    def changed(one, m, v):
        return one - 1e-3 * (m / (1 - 0.9 ** count.astype(jnp.float32))) / (jnp.sqrt(v / (1 - 0.999 ** count.astype(jnp.float32))) + 1e-8)
    return jax.tree_util.tree_map(changed, params, first, second), (first, second), count


def attention(q, k, v, mask):
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.float32(np.sqrt(q.shape[-1]))
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(jnp.where(mask, scores, -1e9)), v)


def transformer(x, weights):
    def norm(x):
        return (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)
    batch, length, width = x.shape
    q, k, v = jnp.split(norm(x) @ weights["qkv"], 3, -1)
    q, k, v = (one.reshape(batch, length, 4, width // 4) for one in (q, k, v))
    x = x + attention(q, k, v, jnp.tril(jnp.ones((length, length), bool))).reshape(x.shape) @ weights["out"]
    return x + jax.nn.silu(norm(x) @ weights["up"]) @ weights["down"]


def transformer_weights(width):
    return {"qkv": normal(1, width, 3 * width) * .1, "out": normal(2, width, width) * .1, "up": normal(3, width, 2 * width) * .1,
            "down": normal(4, 2 * width, width) * .1}


def recurrent(weights, x):
    def step(state, one):
        state = jnp.tanh(one @ weights[0] + state @ weights[1])
        return state, state
    return lax.scan(step, jnp.zeros((x.shape[1], weights[1].shape[0])).astype(x.dtype), x)


def newton(x):
    return lax.while_loop(lambda s: jnp.any(jnp.abs(s[0] * s[0] - x) > 1e-5 * x), lambda s: ((s[0] + x / s[0]) / 2, s[1] + 1), (x, 0))


def network(params, x):
    def norm(x, scale, offset):
        mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
        return (x - mean) * lax.rsqrt(variance + 1e-5) * scale + offset
    x = lax.conv_general_dilated(x, params["first"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    x = jax.nn.relu(norm(x, params["scale"], params["offset"]))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = lax.conv_general_dilated(x, params["second"], (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return jax.nn.relu(x).mean((1, 2)) @ params["last"]


def network_params():
    return {"first": normal(1, 3, 3, 3, 8) * .3, "scale": normal(2, 8) + 1, "offset": normal(3, 8), "second": normal(4, 3, 3, 8, 12) * .2,
            "last": normal(5, 12, 10)}


def network_gradient(params, x, y):
    return jax.value_and_grad(lambda params: jnp.mean((network(params, x) - y) ** 2))(params)


def key_bits(seed):
    return jax.random.bits(jax.random.key(seed), (3, 5), dtype="uint32")


def random_values(seed):
    keys = jax.random.split(jax.random.key(seed), 6)
    return (jax.random.normal(keys[0], (4, 7)), jax.random.uniform(keys[1], (9,)), jax.random.randint(keys[2], (8,), 0, 100),
            jax.random.bernoulli(keys[3], .3, (16,)), jax.random.permutation(keys[4], 12), jax.random.gumbel(keys[5], (5,)))


def each_type(x):
    """Conversions to all types and back that kernels compute in."""
    return [x.astype(kind) for kind in ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "float16", "bfloat16", "float32", "float64")]


def updates(x, index, values):
    return x.at[index].set(values[0], unique_indices=False), x.at[index].add(values), x.at[index].max(values), x.at[index].multiply(values, mode="drop")


def game_of_life(board, steps):
    def step(_, board):
        around = sum(jnp.roll(board, (dy, dx), (0, 1)) for dy in (-1, 0, 1) for dx in (-1, 0, 1)) - board
        return ((around == 3) | ((board == 1) & (around == 2))).astype(board.dtype)
    return lax.fori_loop(0, steps, step, board)


def generate(weights, start):
    """Greedy generation with a cache that is updated in place."""
    embedding, out = weights

    def step(state, index):
        token, cache = state
        cache = lax.dynamic_update_slice(cache, embedding[token][None], (index, 0))
        seen = jnp.where(jnp.arange(cache.shape[0])[:, None] <= index, cache, 0)
        scores = jnp.where(jnp.arange(cache.shape[0]) <= index, seen @ embedding[token], -jnp.inf)
        token = jnp.argmax(jax.nn.softmax(scores) @ seen @ out).astype(jnp.int32)
        return (token, cache), token
    return lax.scan(step, (start, jnp.zeros((8, embedding.shape[1]), jnp.float32)), jnp.arange(8))


CLOSE = (2e-5, 2e-5)
# name: (operation, function, arguments, (rtol, atol))
FUNCTIONS = {
    "mlp": ("training", mlp, (mlp_params(1, 12, 16, 10), normal(9, 5, 12)), CLOSE),
    "mlp_gradient_step_donated": ("training", gradient_step, (mlp_params(1, 12, 16, 10), normal(9, 5, 12), whole(8, 5, low=0, high=10)), CLOSE),
    "mlp_adam_step": ("training", adam_step, (mlp_params(1, 6, 8, 3), [[(np.zeros_like(w), np.zeros_like(b)) for w, b in mlp_params(1, 6, 8, 3)]] * 2,
                                              np.int32(0), normal(2, 4, 6), normal(3, 4, 3)), (1e-4, 1e-4)),
    "mlp_hessian_vector": ("training", lambda w, x, v: jax.jvp(jax.grad(lambda w: jnp.sum(jnp.tanh(x @ w) ** 2)), (w,), (v,)),
                           (normal(1, 5, 4), normal(2, 3, 5), normal(3, 5, 4)), CLOSE),
    "attention": ("attention", attention, (normal(1, 2, 6, 4, 8), normal(2, 2, 6, 4, 8), normal(3, 2, 6, 4, 8), np.tril(np.ones((6, 6), bool))), CLOSE),
    "attention_gradient": ("attention", jax.grad(lambda *given: attention(*given, np.tril(np.ones((6, 6), bool))).sum(), (0, 1, 2)),
                           (normal(1, 2, 6, 4, 8), normal(2, 2, 6, 4, 8), normal(3, 2, 6, 4, 8)), CLOSE),
    "transformer": ("attention", transformer, (normal(9, 2, 7, 16), transformer_weights(16)), (1e-4, 1e-4)),
    "transformer_bf16": ("attention", transformer, (normal(9, 2, 7, 16, dtype=jnp.bfloat16),
                                                    jax.tree_util.tree_map(lambda one: one.astype(jnp.bfloat16), transformer_weights(16))), (.05, .05)),
    "generate": ("control", generate, ((normal(1, 20, 16), normal(2, 16, 20)), np.int32(3)), CLOSE),
    "scan": ("control", recurrent, ((normal(1, 4, 6) * .5, normal(2, 6, 6) * .5), normal(3, 9, 2, 4)), CLOSE),
    "scan_gradient": ("control", jax.grad(lambda w, x: recurrent(w, x)[1].sum()), ((normal(1, 4, 6) * .5, normal(2, 6, 6) * .5), normal(3, 9, 2, 4)), CLOSE),
    "associative_scan": ("control", lambda x: lax.associative_scan(jnp.multiply, x), (normal(1, 11, 3),), CLOSE),
    "while": ("control", newton, (np.abs(normal(1, 6)) + .5,), CLOSE),
    "fori_loop": ("control", game_of_life, (whole(1, 8, 9, low=0, high=2), np.int32(5)), (0, 0)),
    "cond": ("control", lambda p, x: lax.cond(p, lambda x: jnp.sin(x), lambda x: x * 2, x), (np.bool_(True), normal(1, 5)), CLOSE),
    "switch": ("control", lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, jnp.exp], x), (np.int32(1), normal(1, 5)), CLOSE),
    "switch_out_of_range": ("control", lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, jnp.exp], x), (np.int32(7), normal(1, 5)), CLOSE),
    "vmap_cond": ("control", jax.vmap(lambda p, x: lax.cond(p, jnp.sin, jnp.cos, x)), (np.array([True, False, True]), normal(1, 3, 4)), CLOSE),
    "vmap_while": ("control", jax.vmap(lambda n: lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * 2 + s[0]), (0, 1))), (whole(1, 5, low=0, high=9, dtype="int64"),), (0, 0)),
    "convolutions": ("convolution", network, (network_params(), normal(9, 2, 12, 12, 3)), (1e-4, 1e-4)),
    "convolutions_gradient": ("convolution", network_gradient, (network_params(), normal(9, 2, 12, 12, 3), normal(8, 2, 10)), (1e-3, 1e-4)),
    "convolution_1d_dilated": ("convolution", lambda x, w: lax.conv_general_dilated(x, w, (2,), [(3, 1)], rhs_dilation=(2,)), (normal(1, 2, 3, 17), normal(2, 4, 3, 3)), CLOSE),
    "convolution_grouped": ("convolution", lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "SAME", feature_group_count=4), (normal(1, 2, 8, 9, 9), normal(2, 8, 2, 3, 3)), CLOSE),
    "convolution_transposed": ("convolution", lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME"), (normal(1, 2, 5, 5, 3), normal(2, 3, 3, 3, 4)), CLOSE),
    "average_pool": ("convolution", lambda x: lax.reduce_window(x, 0., lax.add, (1, 3, 3, 1), (1, 2, 2, 1), "SAME") / 9, (normal(1, 2, 9, 9, 4),), CLOSE),
    "sort": ("order", lambda x: (jnp.sort(x), jnp.argsort(x), jnp.sort(x, 0, descending=True)), (normal(1, 5, 9),), (0, 0)),
    "sort_several": ("order", lambda x, y: lax.sort((x, y), num_keys=2), (whole(1, 20, low=0, high=4), normal(2, 20)), (0, 0)),
    "top_k": ("order", lambda x: lax.top_k(x, 3), (normal(1, 4, 10),), (0, 0)),
    "argmax_cumsum": ("order", lambda x: (jnp.argmax(x, 1), jnp.argmin(x, 0), jnp.cumsum(x, 1), jnp.cumprod(x, 0), lax.cummax(x, 1)), (normal(1, 4, 6),), CLOSE),
    "median_quantile": ("order", lambda x: (jnp.median(x), jnp.quantile(x, .3, axis=0)), (normal(1, 7, 4),), CLOSE),
    "searchsorted": ("order", lambda a, v: jnp.searchsorted(a, v), (np.sort(normal(1, 20)), normal(2, 6)), (0, 0)),
    "gather": ("index", lambda x, i: (x[i], x[:, i[0]], jnp.take(x, i, axis=1, mode="clip"), x[i, i]), (normal(1, 6, 6), whole(2, 4, low=0, high=6)), (0, 0)),
    "scatter": ("index", updates, (normal(1, 6, 3), np.array([0, 2, 5], "int32"), normal(2, 3, 3)), CLOSE),
    "scatter_repeated": ("index", lambda x, i, v: x.at[i].add(v), (normal(1, 6, 3), np.array([0, 2, 2, -1, 9], "int32"), normal(2, 5, 3)), CLOSE),
    "embedding_gradient": ("index", jax.grad(lambda w, i: jnp.sum(w[i] ** 2)), (normal(1, 10, 4), whole(2, 7, low=0, high=10)), CLOSE),
    "dynamic_slices": ("index", lambda x, i, j: (lax.dynamic_slice(x, (i, j), (2, 3)), lax.dynamic_update_slice(x, jnp.ones((2, 2), x.dtype), (i, j))), (normal(1, 5, 7), np.int32(4), np.int32(-2)), (0, 0)),
    "segment_sum": ("index", lambda x, i: jax.ops.segment_sum(x, i, 4), (normal(1, 9, 2), np.sort(whole(2, 9, low=0, high=4))), CLOSE),
    "one_hot_where_pad": ("index", lambda i, x: (jax.nn.one_hot(i, 5), jnp.where(x > 0, x, -x), jnp.pad(x, ((1, 2), (0, 3)), "reflect")), (whole(1, 4, low=0, high=5), normal(2, 4, 4)), (0, 0)),
    "fft": ("fft", lambda x: (jnp.fft.rfft(x), jnp.fft.irfft(jnp.fft.rfft(x)), jnp.abs(jnp.fft.fft2(x))), (normal(1, 6, 8),), (1e-4, 1e-4)),
    "fft_complex": ("fft", lambda x, y: jnp.fft.ifft(jnp.fft.fft(x + 1j * y)) * 2, (normal(1, 3, 12), normal(2, 3, 12)), (1e-4, 1e-4)),
    "cholesky": ("linear algebra", lambda x: jnp.linalg.cholesky(x), (positive(1, 6, "float32"),), (1e-4, 1e-4)),
    "cholesky_solve": ("linear algebra", lambda a, b: jax.scipy.linalg.cho_solve((lax.linalg.cholesky(a), True), b), (positive(1, 6), normal(2, 6, 3, dtype="float64")), (1e-7, 1e-7)),
    "triangular_solve": ("linear algebra", lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True, lower=True), (np.tril(positive(1, 5)), normal(2, 5, 2, dtype="float64")), (1e-7, 1e-7)),
    "solve": ("linear algebra", jnp.linalg.solve, (positive(1, 5), normal(2, 5, 2, dtype="float64")), (1e-7, 1e-7)),
    "qr": ("linear algebra", lambda x: jnp.abs(jnp.linalg.qr(x)[1]), (normal(1, 6, 4),), (1e-4, 1e-4)),
    "inverse_determinant": ("linear algebra", lambda x: (jnp.linalg.inv(x), jnp.linalg.det(x)), (positive(1, 4),), (1e-7, 1e-7)),
    "eigenvalues": ("linear algebra", lambda x: jnp.linalg.eigvalsh(x), (positive(1, 4),), (1e-7, 1e-7)),
    "matrix_exponential": ("linear algebra", jax.scipy.linalg.expm, (normal(1, 4, 4, dtype="float64") * .3,), (1e-7, 1e-7)),
    "einsum": ("linear algebra", lambda a, b, c: jnp.einsum("bij,bjk,kl->bil", a, b, c), (normal(1, 3, 4, 5), normal(2, 3, 5, 6), normal(3, 6, 2)), CLOSE),
    "random_bits": ("random", key_bits, (np.uint32(7),), (0, 0)),
    "random": ("random", random_values, (np.uint32(7),), CLOSE),
    "random_categorical": ("random", lambda seed, x: jax.random.categorical(jax.random.key(seed), x), (np.uint32(3), normal(1, 6, 9)), (0, 0)),
    "dropout": ("random", lambda seed, x: jnp.where(jax.random.bernoulli(jax.random.key(seed), .8, x.shape), x / .8, 0), (np.uint32(3), normal(1, 6, 9)), CLOSE),
    "random_rbg": ("random", lambda seed: jax.random.bits(jax.random.key(seed, impl="rbg"), (6,)), (np.uint32(5),), (0, 0)),
    "special": ("elementwise", lambda x: (jax.scipy.special.erf(x), jax.scipy.special.erfinv(jnp.tanh(x)), jax.scipy.special.gammaln(jnp.abs(x) + .5), jax.scipy.special.digamma(jnp.abs(x) + .5),
                                          jax.scipy.special.logit(jax.nn.sigmoid(x)), jax.scipy.special.i0(x)), (normal(1, 30),), (1e-4, 1e-5)),
    "trigonometry": ("elementwise", lambda x: (jnp.sin(x), jnp.cos(x), jnp.tan(x), jnp.arctan2(x, x[::-1]), jnp.arcsinh(x), jnp.sinh(x), jnp.cbrt(x), jnp.expm1(x), jnp.log1p(jnp.abs(x))), (normal(1, 40),), CLOSE),
    "rounding": ("elementwise", lambda x: (jnp.round(x), jnp.floor(x), jnp.ceil(x), jnp.trunc(x), jnp.sign(x), jnp.fmod(x, .7), x % .7, jnp.nextafter(x, x + 1)), (normal(1, 40) * 3,), CLOSE),
    "activations": ("elementwise", lambda x: (jax.nn.gelu(x), jax.nn.silu(x), jax.nn.softplus(x), jax.nn.elu(x), jax.nn.selu(x), jax.nn.leaky_relu(x), jax.nn.mish(x), jax.nn.logsumexp(x)), (normal(1, 40),), CLOSE),
    "types": ("types", each_type, (np.abs(normal(1, 12)) * 20,), (1e-2, 1e-2)),
    "int8_matmul": ("types", lambda a, b: lax.dot(a, b, preferred_element_type=jnp.int32), (whole(1, 4, 9, dtype="int8"), whole(2, 9, 3, dtype="int8")), (0, 0)),
    "integers": ("types", lambda a, b: (a + b, a // b, a % b, a & b, a ^ b, a << 2, a >> 1, lax.population_count(a), lax.clz(a), jnp.gcd(a, b)), (whole(1, 20), whole(2, 20, low=1, high=9)), (0, 0)),
    "unsigned": ("types", lambda a, b: (a + b, a * b, a // b, a > b, lax.shift_right_logical(a, b % 8), a.astype("float32")), (whole(1, 20, low=0, high=255, dtype="uint8"), whole(2, 20, low=1, high=9, dtype="uint8")), (0, 0)),
    "f16_softmax": ("types", jax.nn.softmax, (normal(1, 4, 9, dtype="float16"),), (2e-3, 2e-3)),
    "bf16_matmul": ("types", lambda a, b: a @ b, (normal(1, 5, 16, dtype=jnp.bfloat16), normal(2, 16, 4, dtype=jnp.bfloat16)), (2e-2, 2e-2)),
    "f64_statistics": ("types", lambda x: (x.mean(0), x.std(1), jnp.linalg.norm(x), jnp.corrcoef(x)), (normal(1, 5, 8, dtype="float64"),), (1e-9, 1e-9)),
    "complex": ("types", lambda x, y: (x * y, x / y, jnp.abs(x), jnp.exp(x), jnp.conj(x) @ y.T, jnp.angle(y), jnp.sqrt(x)), (normal(1, 3, 4) + 1j * normal(2, 3, 4), normal(3, 3, 4) + 1j * normal(4, 3, 4)), (1e-4, 1e-4)),
    "bitcast": ("types", lambda x: (lax.bitcast_convert_type(x, jnp.int32), lax.bitcast_convert_type(x, jnp.uint8), lax.reduce_precision(x, 5, 10)), (normal(1, 4, 3),), (0, 0)),
    "checkpoint_custom_vjp": ("training", jax.grad(lambda x: jnp.sum(jax.checkpoint(jnp.sin)(jax.nn.relu(x)))), (normal(1, 8),), CLOSE),
}
# With symbols instead of extents: name: (operation, function, [shapes], [sizes of the symbols], makes arguments of sizes, (rtol, atol))
DYNAMIC = {
    "batch_of_mlp": ("symbolic shapes", lambda x: mlp(mlp_params(1, 12, 16, 10), x), ["b, 12"], [(1,), (5,)], lambda b: (normal(b, b, 12),), CLOSE),
    "batch_and_length_of_transformer": ("symbolic shapes", lambda x: transformer(x, transformer_weights(16)), ["b, n, 16"], [(1, 3), (2, 8)],
                                        lambda b, n: (normal(b, b, n, 16),), (1e-4, 1e-4)),
    "sum_and_mean": ("symbolic shapes", lambda x, y: (x.sum(0), x.mean(), jnp.concatenate([x, y], 0), x[: x.shape[0] // 2]), ["n, 3", "m, 3"], [(4, 2), (7, 3)],
                     lambda n, m: (normal(n, n, 3), normal(m, m, 3)), CLOSE),
    "reshapes": ("symbolic shapes", lambda x: (x.reshape(-1), x.reshape(x.shape[0], -1), jnp.broadcast_to(x[:, None], (x.shape[0], 3, 2, 4)), jnp.arange(x.shape[0])), ["n, 2, 4"],
                 [(3,), (6,)], lambda n: (normal(n, n, 2, 4),), (0, 0)),
    "convolutions": ("symbolic shapes", lambda x: network(network_params(), x), ["b, 12, 12, 3"], [(1,), (3,)], lambda b: (normal(b, b, 12, 12, 3),), (1e-4, 1e-4)),
    "scan_over_steps": ("symbolic shapes", lambda x: recurrent((normal(1, 4, 6) * .5, normal(2, 6, 6) * .5), x), ["n, 2, 4"], [(1,), (5,)], lambda n: (normal(n, n, 2, 4),), CLOSE),
    "gather_of_tokens": ("symbolic shapes", lambda i: jnp.array(normal(1, 20, 4))[i], ["b, n"], [(2, 3), (1, 9)], lambda b, n: (whole(b, b, n, low=0, high=20),), (0, 0)),
}


def add_case(name, operator, exported, arguments, results, tolerance, add):
    rtol, atol = tolerance
    inputs = [np.asarray(one) for one in jax.tree_util.tree_leaves(arguments)]
    inputs = [inputs[index] for index in exported.module_kept_var_idx]
    expected = [np.asarray(one) for one in jax.tree_util.tree_leaves(results)]
    checks = [{"kind": "close", "rtol": rtol, "atol": atol} for _ in expected]
    add(name, operator, exported, inputs, expected, checks)


def prepare(stablehlo, chosen, add):
    """Calls add(name, operation, exported function, inputs, expected, checks) for each case."""
    for name, (operation, function, arguments, tolerance) in FUNCTIONS.items():
        if not chosen(f"jax/{name}", operation):
            continue
        arguments = jax.tree_util.tree_map(np.asarray, arguments)
        jitted = function if hasattr(function, "lower") else jax.jit(function)
        shapes = jax.tree_util.tree_map(lambda one: jax.ShapeDtypeStruct(one.shape, one.dtype), arguments)
        exported = export.export(jitted)(*shapes)
        results = jax.tree_util.tree_map(np.asarray, jitted(*jax.tree_util.tree_map(jnp.array, arguments)))
        add_case(f"jax/{name}", operation, exported, arguments, results, tolerance, add)
    for name, (operation, function, texts, sizes, make, tolerance) in DYNAMIC.items():
        if not chosen(f"jax/symbolic/{name}", operation):
            continue
        scope = export.SymbolicScope()
        example = make(*sizes[0])
        shapes = [jax.ShapeDtypeStruct(export.symbolic_shape(text, scope=scope), one.dtype) for text, one in zip(texts, example, strict=True)]
        exported = export.export(jax.jit(function))(*shapes)
        for one in sizes:
            arguments = make(*one)
            add_case(f"jax/symbolic/{name}/{'x'.join(map(str, one))}", operation, exported, arguments,
                     jax.tree_util.tree_map(np.asarray, function(*arguments)), tolerance, add)
