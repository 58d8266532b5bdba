# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Matrix products, convolutions, and windows of images."""
import numpy as np

from pieces import MOST_ELEMENTS, Pieces, is_float


class Contractions(Pieces):
    def epilogue(self, value):
        """Now and then what kernels compute of sums."""
        if self.chance(0.5) and not value.names[-1]:
            value = self.like("Add", value, self.weight(value.shape[-1]))
        if self.chance(0.4):
            value = self.like(self.pick(["Relu", "Sigmoid", "Tanh"]), value)
        if self.chance(0.3):
            other = self.some(lambda one: one.shape == value.shape and one.names == value.names, value.dtype)
            value = self.like("Add", value, other) if other is not None else value
        return value

    def part(self, x):
        """Now and then a slice of it without strides, which a contraction may read where it lies."""
        known = [d for d in range(x.rank) if not x.names[d] and x.shape[d] > 1]
        if not known or self.chance(0.7):
            return x
        axis, shape = self.pick(known), list(x.shape)
        low = int(self.random.integers(shape[axis]))
        high = int(self.random.integers(low + 1, shape[axis] + 1))
        shape[axis] = high - low
        given = [self.constant(np.array([number], np.int64)) for number in (low, high, axis)]
        return self.node("Slice", [x, *given], x.dtype, shape, x.names)

    def linear(self):
        x = self.some_float(lambda value: value.rank > 1 and self.last_is_known(value) and value.shape[-1] > 0)
        if x is None:
            return None
        x = self.part(self.tame(x))
        depth = x.shape[-1]
        for _ in range(self.pick([1, 1, 2, 3])):  # of one left side
            columns = self.extent()
            if x.size // depth * columns > MOST_ELEMENTS:
                return None
            result = self.node("MatMul", [x, self.weight(depth, columns, scale=depth ** -0.5)], x.dtype, x.shape[:-1] + (columns,), x.names[:-1] + (None,))
            self.keep(self.epilogue(result))
        return None

    def gemm(self):
        x = self.some_float(lambda value: value.rank == 2 and not all(value.names) and value.size > 0)
        if x is None:
            return None
        turned = bool(x.names[1]) or not x.names[0] and self.chance(0.3)
        (rows, row_name), (depth, _) = ((extent, name) for extent, name in zip(x.shape[::-1] if turned else x.shape, x.names[::-1] if turned else x.names))
        columns, other = self.extent(), self.chance(0.5)
        if rows * columns > MOST_ELEMENTS:
            return None
        given = [self.tame(x), self.weight(*((columns, depth) if other else (depth, columns)), scale=depth ** -0.5)]
        if self.chance(0.7):
            given.append(self.weight(*self.pick([(columns,), (1, columns), (1,), ()] + [(rows, columns), (rows, 1)] * (not row_name))))
        attributes = {"alpha": 0.5} if self.chance(0.3) else {}
        attributes.update({"beta": 1.5} if self.chance(0.3) else {})
        return self.epilogue(self.node("Gemm", given, x.dtype, (rows, columns), (row_name, None), transA=int(turned), transB=int(other), **attributes))

    def matmul(self):
        x = self.some_float(lambda value: value.rank > 1 and self.last_is_known(value))
        if x is None:
            return None
        order = [*range(x.rank - 2), x.rank - 1, x.rank - 2]
        y = self.some_float(lambda value: value.rank == x.rank and value.shape[:-2] == x.shape[:-2] and value.names[:-2] == x.names[:-2] and
                            value.shape[-2] == x.shape[-1] and value.names[-2] is None)
        if y is None:
            y = self.node("Transpose", [x], x.dtype, [x.shape[d] for d in order], [x.names[d] for d in order], perm=order)
        shape, names = x.shape[:-1] + (y.shape[-1],), x.names[:-1] + (y.names[-1],)
        if np.prod(shape) > MOST_ELEMENTS:
            return None
        scaled = self.like("Mul", self.tame(x), self.number(x.shape[-1] ** -0.5))
        return self.epilogue(self.node("MatMul", [scaled, self.tame(y)], x.dtype, shape, names))

    def einsum(self):
        x = self.some_float(lambda value: value.rank in (2, 3, 4) and not any(value.names[-2:]))
        if x is None:
            return None
        batch = "abc"[:x.rank - 2]
        rows, inner, columns = x.shape[-2], x.shape[-1], int(self.pick([1, 3, 8, 17]))
        if x.size // inner * columns > MOST_ELEMENTS:
            return None
        result = list(batch + "ij")
        order = [int(d) for d in self.random.permutation(x.rank)]
        shape, names = (*x.shape[:-2], rows, columns), (*x.names[:-2], None, None)
        equation = f"{batch}ik,jk->{''.join(result[d] for d in order)}"
        return self.node("Einsum", [self.tame(x), self.weight(columns, inner, scale=inner ** -0.5)], x.dtype, [shape[d] for d in order],
                         [names[d] for d in order], equation=equation)

    def attention(self):
        depth, columns = int(self.pick([4, 8, 16, 24])), int(self.pick([4, 8, 17]))
        x = self.some_float(lambda value: value.rank == 3 and self.last_is_known(value))
        if x is None or x.size // x.shape[-1] * max(depth, columns) > MOST_ELEMENTS:
            return None
        x = self.tame(x)

        def projected(width):
            weight = self.weight(x.shape[-1], width, scale=x.shape[-1] ** -0.5)
            return self.node("MatMul", [x, weight], x.dtype, x.shape[:-1] + (width,), x.names[:-1] + (None,))

        q, k, v = projected(depth), projected(depth), projected(columns)
        kt = self.node("Transpose", [k], x.dtype, (x.shape[0], depth, x.shape[1]), (x.names[0], None, x.names[1]), perm=[0, 2, 1])
        square = (x.shape[0], x.shape[1], x.shape[1]), (x.names[0], x.names[1], x.names[1])
        scores = self.like("Mul", self.node("MatMul", [q, kt], x.dtype, *square), self.number(depth ** -0.5))
        if self.chance(0.4) and not x.names[1]:
            causal = np.triu(np.full((x.shape[1], x.shape[1]), -10, self.float), 1)
            scores = self.like("Add", scores, self.constant(causal))
        return self.node("MatMul", [self.like("Softmax", scores, axis=-1), v], x.dtype, x.shape[:-1] + (columns,), x.names[:-1] + (None,))

    def conv(self):
        x = self.image()
        if x is None:
            return None
        x = self.part(x)
        channels, spatial = x.shape[1], x.shape[2:]
        groups = self.pick([g for g in (1, 1, 1, 2, channels) if channels % g == 0])
        filters = groups * int(self.pick([1, 2, 3, 8, 16]) if groups == 1 else self.pick([1, 1, 2]))
        kernel = [int(self.pick([1, 1, 3, 3, 2, 5])) for _ in spatial]
        strides = [int(self.pick([1, 1, 2])) for _ in spatial]
        dilations = [int(self.pick([1, 1, 1, 2])) for _ in spatial]
        low, high = ([int(self.pick([0, 1, k // 2])) for k in kernel] for _ in range(2))
        shape = [(extent + a + b - (k - 1) * d - 1) // s + 1 for extent, a, b, k, d, s in zip(spatial, low, high, kernel, dilations, strides)]
        if min(shape) < 1 or x.shape[0] * filters * np.prod(shape) > MOST_ELEMENTS:
            return None
        depth = channels // groups * int(np.prod(kernel))
        given = [self.tame(x), self.weight(filters, channels // groups, *kernel, scale=depth ** -0.5)] + ([self.weight(filters)] if self.chance(0.6) else [])
        result = self.node("Conv", given, x.dtype, (x.shape[0], filters, *shape), (x.names[0],) + (None,) * (1 + len(shape)), group=groups, kernel_shape=kernel,
                           strides=strides, dilations=dilations, pads=low + high)
        result = self.of_channels(result)
        if self.chance(0.5):
            result = self.like(self.pick(["Relu", "Sigmoid", "Tanh"]), result)
        return result

    def of_channels(self, value):
        """Now and then what goes into a filter: factors and offsets of channels."""
        if self.chance(0.2):
            return self.batch_normalization(value)
        each = (value.shape[1], *[1] * (value.rank - 2))
        for _ in range(int(self.pick([0, 0, 1, 2]))):
            value = self.like(self.pick(["Mul", "Add", "Sub"]), value, self.weight(*each))
        return value

    def wide_conv(self):
        """With windows of 3 x 3 and as many channels as Winograd's algorithm is for."""
        x = self.image()
        if x is None or x.rank != 4 or min(x.shape[2:]) < 3 or x.shape[0] * np.prod(x.shape[2:]) > MOST_ELEMENTS // 40:  # then there is one more
            x = self.input_of(self.float, (1, int(self.pick([1, 3, 8])), int(self.random.integers(3, 13)), int(self.random.integers(3, 13))))
        filters, low, high = int(self.pick([32, 40])), [int(self.pick([0, 1])) for _ in range(2)], [int(self.pick([0, 1])) for _ in range(2)]
        names = (x.names[0], None, None, None)
        wide = self.node("Conv", [self.tame(x), self.weight(32, x.shape[1], 1, 1, scale=x.shape[1] ** -0.5)], x.dtype, (x.shape[0], 32, *x.shape[2:]), names)
        shape = [extent + a + b - 2 for extent, a, b in zip(x.shape[2:], low, high)]
        result = self.node("Conv", [wide, self.weight(filters, 32, 3, 3, scale=288 ** -0.5)], x.dtype, (x.shape[0], filters, *shape), names, pads=low + high)
        result = self.of_channels(result)
        return self.like(self.pick(["Relu", "Sigmoid"]), result) if self.chance(0.5) else result

    def branches(self):
        """Of one image, joined along its channels, or along a batch of one: kernels store the parts in place where they can."""
        x = self.image()
        if x is None or x.rank != 4:
            return None
        along_batch = x.shape[0] == 1 and not x.names[0] and self.chance(0.3)
        same, parts = int(self.pick([16, 32])), []
        for _ in range(int(self.pick([2, 3]))):
            channels = same if along_batch else int(self.pick([16, 16, 32, 48, 8]))
            size = int(self.pick([1, 3]))
            if x.shape[0] * channels * np.prod(x.shape[2:]) > MOST_ELEMENTS // 3:
                return None
            shape = (x.shape[0], channels, *x.shape[2:])
            part = self.node("Conv", [self.tame(x), self.weight(channels, x.shape[1], size, size, scale=(x.shape[1] * size * size) ** -0.5)], x.dtype, shape,
                             x.names, pads=[size // 2] * 4)
            part = self.of_channels(part)
            if self.chance(0.2):
                part = self.node("AveragePool", [part], x.dtype, shape, x.names, kernel_shape=[3, 3], pads=[1] * 4)
            elif self.chance(0.5):
                part = self.like(self.pick(["Relu", "Sigmoid"]), part)
            if self.chance(0.2):
                self.keep(part)
            parts.append(part)
        axis = 0 if along_batch else 1
        shape = list(parts[0].shape)
        shape[axis] = sum(part.shape[axis] for part in parts)
        return self.node("Concat", parts, x.dtype, shape, x.names, axis=axis)

    def conv_transpose(self):
        x = self.image()
        if x is None:
            return None
        channels, spatial = x.shape[1], x.shape[2:]
        groups = self.pick([g for g in (1, 1, 2, channels) if channels % g == 0])
        filters, kernel, strides = int(self.pick([1, 2, 3, 8])), [int(self.pick([1, 2, 3, 4])) for _ in spatial], [int(self.pick([1, 2, 3])) for _ in spatial]
        pads = [int(self.pick([0, 0, 1])) * (k > 1) for k in kernel]
        shape = [(extent - 1) * s + k - 2 * low for extent, s, k, low in zip(spatial, strides, kernel, pads)]
        if min(shape) < 1 or x.shape[0] * filters * groups * np.prod(shape) > MOST_ELEMENTS:
            return None
        depth = channels // groups * int(np.prod(kernel))
        return self.node("ConvTranspose", [self.tame(x), self.weight(channels, filters, *kernel, scale=depth ** -0.5), self.weight(filters * groups)], x.dtype,
                         (x.shape[0], filters * groups, *shape), (x.names[0],) + (None,) * (1 + len(shape)), group=groups, kernel_shape=kernel, strides=strides,
                         pads=pads + pads)

    def pool(self):
        x = self.image("MaxPool")
        if x is None:
            return None
        kind = self.pick(["MaxPool", "AveragePool"]) if is_float(x.dtype) else "MaxPool"
        spatial = x.shape[2:]
        kernel = [int(self.pick([1, 2, 3])) for _ in spatial]
        strides = [int(self.pick([1, 2])) for _ in spatial]
        dilations = [int(self.pick([1, 1, 2])) if kind == "MaxPool" else 1 for _ in spatial]
        low, high = ([int(self.random.integers(k)) for k in kernel] for _ in range(2))
        room = [extent + a + b - (k - 1) * d - 1 for extent, a, b, k, d in zip(spatial, low, high, kernel, dilations)]
        if min(room) < 0:
            return None
        attributes = {"kernel_shape": kernel, "strides": strides, "pads": low + high}
        if kind == "AveragePool":
            attributes["count_include_pad"] = int(self.chance(0.5))
        elif max(dilations) > 1:
            attributes["dilations"] = dilations
        return self.node(kind, [x], x.dtype, (*x.shape[:2], *[a // s + 1 for a, s in zip(room, strides)]), x.names, **attributes)

    def global_pool(self):
        x = self.image()
        if x is None:
            return None
        return self.node(self.pick(["GlobalAveragePool", "GlobalMaxPool"]), [x], x.dtype, (*x.shape[:2], *[1] * (x.rank - 2)), x.names)
