# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Nodes that move elements: by a rule, or to where indices say."""
import numpy as np

from pieces import INTS, MOST_ELEMENTS, Pieces, Value, is_float, runs


class Movement(Pieces):
    def movement(self):
        x = self.some(lambda value: value.rank > 0)
        return x and self.pick([self.transpose, self.transpose, self.reshape, self.reshape, self.slice, self.slice, self.concat, self.concat, self.pad, self.expand,
                                self.squeeze, self.unsqueeze, self.split, self.tile, self.triangle, self.blocks, self.flatten])(x)

    def transpose(self, x):
        order = [int(d) for d in self.random.permutation(x.rank)]
        return self.node("Transpose", [x], x.dtype, [x.shape[d] for d in order], [x.names[d] for d in order], perm=order)

    def reshape(self, x):
        if not x.is_known:  # neighbors that are known become one, or one becomes two
            pairs = [d for d in range(x.rank - 1) if not x.names[d] and not x.names[d + 1]]
            if not pairs or sum(name is not None for name in x.names) > 1:
                return None
            d = self.pick(pairs)
            shape = x.shape[:d] + (x.shape[d] * x.shape[d + 1],) + x.shape[d + 2:]
            names = x.names[:d] + x.names[d + 1:]
            wanted = [-1 if name else extent for extent, name in zip(shape, names)]
        else:
            rest, shape = x.size, []
            for _ in range(int(self.random.integers(1, 5))):
                divisor = self.pick([d for d in range(1, max(rest, 1) + 1) if rest % d == 0]) if rest > 0 else 0
                shape.append(divisor)
                rest = rest // divisor if divisor else 0
            shape = shape + [rest] if rest != 1 else shape
            wanted, names = list(shape), None
            if self.chance(0.3) and x.size:
                wanted[int(self.random.integers(len(wanted)))] = -1
        return self.node("Reshape", [x, self.constant(np.array(wanted, np.int64))], x.dtype, shape, names)

    def slice(self, x):
        known = [d for d in range(x.rank) if not x.names[d]]
        if not known:
            return None
        axes = sorted(set(int(self.pick(known)) for _ in range(2)))
        starts, ends, steps, shape = [], [], [], list(x.shape)
        for axis in axes:
            extent, step = x.shape[axis], int(self.pick([1, 1, -1, 2, 3, -2]))
            low = int(self.random.integers(extent))
            high = int(self.random.integers(low + 1, extent + 1))
            shape[axis] = len(range(low, high, abs(step)))
            first, end, is_whole = (low, high, high == extent) if step > 0 else (high - 1, low - 1 if low else -extent - 1, low == 0)
            starts.append(first - extent if self.chance(0.3) else first)
            ends.append((2 ** 40 if step > 0 else -2 ** 40) if is_whole and self.chance(0.5) else end)
            steps.append(step)
        given = [self.constant(np.array(numbers, np.int64)) for numbers in (starts, ends, axes, steps)]
        return self.node("Slice", [x, *given], x.dtype, shape, x.names)

    def split(self, x):
        axes = [d for d in range(x.rank) if not x.names[d] and x.shape[d] > 1]
        if not axes:
            return None
        axis = self.pick(axes)
        first = int(self.random.integers(1, x.shape[axis]))
        results = [f"v{self.fresh()}_{part}" for part in range(2)]
        sizes = self.constant(np.array([first, x.shape[axis] - first], np.int64))
        shape = [list(x.shape), list(x.shape)]
        shape[0][axis], shape[1][axis] = first, x.shape[axis] - first
        one = self.node("Split", [x, sizes], x.dtype, shape[0], x.names, outputs=results, axis=axis)
        self.keep(one)
        return Value(results[1], x.dtype, shape[1], x.names)

    def concat(self, x):
        axes = [d for d in range(x.rank) if not x.names[d]]
        if not axes:
            return None
        axis = self.pick(axes)
        parts = [x]
        for _ in range(int(self.random.integers(1, 4))):
            other = self.some(lambda value: value.rank == x.rank and value.names == x.names and
                              all(a == b for d, (a, b) in enumerate(zip(value.shape, x.shape)) if d != axis), x.dtype)
            parts.insert(int(self.random.integers(len(parts) + 1)), self.like("Neg", x) if runs("Neg", x.dtype) and self.chance(0.2) else other)
        shape = list(x.shape)
        shape[axis] = sum(part.shape[axis] for part in parts)
        return self.node("Concat", parts, x.dtype, shape, x.names, axis=axis) if np.prod(shape) <= MOST_ELEMENTS else None

    def pad(self, x):
        if not runs("Pad", x.dtype):
            return None
        low = [0 if name else int(self.pick([0, 0, 1, 2])) for name in x.names]
        high = [0 if name else int(self.pick([0, 0, 1, 3])) for name in x.names]
        shape = [a + extent + b for a, extent, b in zip(low, x.shape, high)]
        mode = self.pick(["constant", "constant", "edge", "reflect"] if is_float(x.dtype) else ["constant"])
        if mode == "edge" or (mode == "reflect" and all(max(a, b) < extent for a, extent, b in zip(low, x.shape, high) if a or b)):
            return self.node("Pad", [x, self.constant(np.array(low + high, np.int64))], x.dtype, shape, x.names, mode=mode)
        value = self.pick([0, 1.5] if is_float(x.dtype) else [0, 1])
        return self.node("Pad", [x, self.constant(np.array(low + high, np.int64)), self.number(value, x.dtype)], x.dtype, shape, x.names)

    def tile(self, x):
        repeats = [1 if name else int(self.pick([1, 1, 2, 3])) for name in x.names]
        shape = [extent * count for extent, count in zip(x.shape, repeats)]
        if np.prod(shape) > MOST_ELEMENTS:
            return None
        return self.node("Tile", [x, self.constant(np.array(repeats, np.int64))], x.dtype, shape, x.names)

    def triangle(self, x):
        if x.rank < 2 or not runs("Trilu", x.dtype):
            return None
        diagonal = [self.constant(np.array(self.random.integers(-3, 4), np.int64))] if self.chance(0.6) else []
        return self.like("Trilu", x, *diagonal, upper=int(self.chance(0.5)))

    def blocks(self, x):
        """Of channels and image, one made of the other."""
        if x.rank != 4 or any(x.names[1:]) or not runs("DepthToSpace", x.dtype):
            return None
        count, channels, height, width = x.shape
        size = int(self.pick([2, 3]))
        if channels % size ** 2 == 0:
            return self.node("DepthToSpace", [x], x.dtype, (count, channels // size ** 2, height * size, width * size), x.names, blocksize=size,
                             mode=self.pick(["DCR", "CRD"]))
        if height % size or width % size:
            return None
        return self.node("SpaceToDepth", [x], x.dtype, (count, channels * size ** 2, height // size, width // size), x.names, blocksize=size)

    def flatten(self, x):
        axis = int(self.random.integers(x.rank + 1))
        if any(x.names[:axis]) and axis != 1 or any(x.names[axis:]):
            return None
        shape = [int(np.prod(part, dtype=np.int64)) for part in (x.shape[:axis], x.shape[axis:])]
        return self.node("Flatten", [x], x.dtype, shape, (x.names[0] if axis == 1 else None, None), axis=axis)

    def expand(self, x):
        if not x.is_known:
            return None
        shape = [self.extent() if extent == 1 and self.chance(0.6) else extent for extent in x.shape]
        if self.chance(0.4):
            shape = [self.pick([1, 2, 3])] + shape
        if np.prod(shape) > MOST_ELEMENTS:
            return None
        return self.node("Expand", [x, self.constant(np.array(shape, np.int64))], x.dtype, shape)

    def unsqueeze(self, x):
        if x.rank > 4:
            return None
        axis = int(self.random.integers(x.rank + 1))
        return self.node("Unsqueeze", [x, self.constant(np.array([axis], np.int64))], x.dtype, x.shape[:axis] + (1,) + x.shape[axis:],
                         x.names[:axis] + (None,) + x.names[axis:])

    def squeeze(self, x):
        ones = [d for d in range(x.rank) if x.shape[d] == 1 and not x.names[d]]
        if not ones:
            return None
        axis = self.pick(ones)
        return self.node("Squeeze", [x, self.constant(np.array([axis], np.int64))], x.dtype, x.shape[:axis] + x.shape[axis + 1:],
                         x.names[:axis] + x.names[axis + 1:])

    def rotation(self):
        x = self.some_float(lambda value: self.last_is_known(value) and value.shape[-1] % 2 == 0)
        if x is None:
            return None
        half = x.shape[-1] // 2

        def part(first, last):
            bounds = [self.constant(np.array([number], np.int64)) for number in (first, last, -1)]
            return self.node("Slice", [x, *bounds], x.dtype, x.shape[:-1] + (half,), x.names)

        low, high = part(0, half), part(half, 2 * half)
        turned = self.node("Concat", [self.like("Neg", high), low], x.dtype, x.shape, x.names, axis=-1)
        return self.like("Add", self.like("Mul", x, self.weight(x.shape[-1])), self.like("Mul", turned, self.weight(x.shape[-1])))

    def resize(self):
        x = self.image("Resize")
        if x is None:
            return None
        # Places are of f32, as ONNX Runtime has them, which has no kernel for f64.
        mode = "nearest" if x.dtype == np.float64 or not is_float(x.dtype) else self.pick(["nearest", "linear"] + ["cubic"] * (x.rank == 4))
        spatial = [int(self.pick([extent, 2 * extent, extent + 1, max(1, extent // 2)])) for extent in x.shape[2:]]
        shape = (*x.shape[:2], *spatial)
        if np.prod(shape) > MOST_ELEMENTS or x.names[0]:
            return None
        place = self.pick(["half_pixel", "asymmetric", "align_corners"])
        return self.node("Resize", [x, "", "", self.constant(np.array(shape, np.int64))], x.dtype, shape, x.names, mode=mode,
                         coordinate_transformation_mode=place, **({"nearest_mode": "floor"} if mode == "nearest" else {}))

    def indices(self, extent, shape):
        """Into an extent: numbers, or what was computed. A value."""
        x = self.some(lambda value: value.dtype in INTS and value.rank < 3 and value.is_known) if self.chance(0.4) else None
        if x is not None:
            return self.like("Mod", x, self.number(extent, x.dtype))
        numbers = np.asarray(self.random.integers(-extent, extent, shape)).astype(self.pick(INTS))
        return Value(self.constant(numbers), numbers.dtype, shape)

    def gather(self):
        x = self.some(lambda value: value.rank > 0 and not value.names[-1])
        known = [] if x is None else [d for d in range(x.rank) if not x.names[d] and x.shape[d] > 0]
        if not known:
            return None
        axis = self.pick(known)
        extent = x.shape[axis]
        if self.chance(0.3):
            shape = [1 if name else extent for extent, name in zip(x.shape, x.names)]
            shape[axis] = int(self.random.integers(1, 6))
            indices = self.constant(self.random.integers(-extent, extent, shape).astype(self.pick(INTS)))
            return self.node("GatherElements", [x, indices], x.dtype, shape, axis=axis) if x.is_known else None
        indices = self.indices(extent, self.pick([(), (3,), (2, 4)]))
        if x.size // extent * indices.size > MOST_ELEMENTS or x.rank + indices.rank > 6:
            return None
        return self.node("Gather", [x, indices], x.dtype, x.shape[:axis] + indices.shape + x.shape[axis + 1:],
                         x.names[:axis] + indices.names + x.names[axis + 1:], axis=axis)

    def gather_nd(self):
        x = self.some(lambda value: value.rank > 0 and value.is_known and value.size > 0)
        if x is None:
            return None
        batch = int(self.random.integers(0, x.rank)) if self.chance(0.4) else 0
        depth = int(self.random.integers(1, x.rank - batch + 1))
        rows = x.shape[:batch] + self.pick([(), (3,), (2, 4)])
        shape = rows + x.shape[batch + depth:]
        if np.prod(shape) > MOST_ELEMENTS or len(shape) > 6:
            return None
        limits = np.array(x.shape[batch:batch + depth])
        indices = self.random.integers(-limits, limits, (*rows, depth))
        return self.node("GatherND", [x, self.constant(indices)], x.dtype, shape, batch_dims=batch)

    def one_hot(self):
        depth = int(self.pick([1, 3, 8]))
        x = self.indices(depth, self.pick([(3,), (2, 4)]))
        axis = int(self.random.integers(x.rank + 1))
        dtype = self.float if self.float == np.float32 else np.dtype(np.int64)
        shape = x.shape[:axis] + (depth,) + x.shape[axis:]
        if x.dtype != np.int64 or x.rank == 0 or np.prod(shape) > MOST_ELEMENTS:
            return None
        return self.node("OneHot", [x, self.number(depth, np.int64), self.constant(np.array([-1, 2], dtype))], dtype, shape,
                         axis=axis - x.rank - 1 if self.chance(0.5) else axis)

    def table(self):
        table = self.quantized(self.shape(int(self.pick([2, 2, 3]))), 1.0)
        axis, shape = int(self.random.integers(table.rank)), self.pick([(), (3,), (2, 4)])
        if table.size // table.shape[axis] * int(np.prod(shape)) > MOST_ELEMENTS:
            return None
        indices = self.constant(np.asarray(self.random.integers(-table.shape[axis], table.shape[axis], shape)).astype(self.pick(INTS)))
        return self.node("Gather", [table, indices], table.dtype, table.shape[:axis] + shape + table.shape[axis + 1:], axis=axis)

    def scatter(self):
        x = self.some_float(lambda value: value.rank > 0 and not any(value.names) and value.size > 0)
        if x is None:
            return None
        reduction = self.pick(["none", "add", "mul"] + ["max", "min"] * (self.opset >= 18))
        if reduction == "mul":
            x = self.tame(x)
        if self.chance(0.4):
            axis = int(self.random.integers(x.rank))
            extent = x.shape[axis]
            count = int(self.random.integers(1, min(extent, 9) + 1))
            shape = (*x.shape[:axis], count, *x.shape[axis + 1:])
            order = np.argsort(self.random.random((*x.shape[:axis], extent, *x.shape[axis + 1:])), axis=axis)
            indices = np.take(order, range(count), axis=axis).astype(self.pick(INTS))
            if reduction != "none":  # several for one place
                indices //= 2
            indices -= ((self.random.random(shape) < 0.2) * extent).astype(indices.dtype)
            return self.like("ScatterElements", x, self.constant(indices), self.weight(*shape), axis=axis, reduction=reduction)
        depth = int(self.random.integers(1, x.rank + 1))
        places = int(np.prod(x.shape[:depth]))
        rows = self.random.permutation(places)[:int(self.random.integers(1, min(places, 9) + 1))]
        if reduction != "none":
            rows //= 2
        indices = np.stack(np.unravel_index(rows, x.shape[:depth]), axis=-1).astype(np.int64)
        indices -= np.array(x.shape[:depth]) * (self.random.random(indices.shape) < 0.2)
        return self.like("ScatterND", x, self.constant(indices), self.weight(len(rows), *x.shape[depth:]), reduction=reduction)
