# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Nodes that go along dimensions: reductions, scans, sorts, normalizations."""
import numpy as np

from pieces import Pieces, Value, runs


class Reductions(Pieces):
    def axes(self, x, most=None):
        axes = [d for d in range(x.rank) if self.chance(0.4)] or [int(self.random.integers(x.rank))]
        return sorted(axes[:most])

    def reduce(self):
        x = self.some_float(lambda value: value.rank > 0)
        if x is None:
            return None
        axes = self.axes(x)
        kind = self.pick(["ReduceMean", "ReduceMax", "ReduceMin", "ReduceSum", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp", "ReduceLogSum", "ReduceProd"])
        if kind == "ReduceProd" and np.prod([x.shape[d] for d in axes]) > 8:  # which has nothing left of most numbers
            kind = "ReduceMean"
        if kind not in ("ReduceMean", "ReduceMax", "ReduceMin"):
            x = self.tame(x)
        if kind == "ReduceLogSum":
            x = self.like("Add", self.like("Abs", x), self.number(0.5))
        return self.reduced(kind, x, axes, self.chance(0.5))

    def reduce_integers(self):
        x = self.some(lambda value: value.rank > 0 and value.dtype.kind in "iu")
        if x is None:
            return None
        kinds = [kind for kind in ("ReduceMax", "ReduceMin", "ReduceSum", "CumSum") if runs(kind, x.dtype)]
        if not kinds:
            return None
        kind = self.pick(kinds)
        if kind == "CumSum":
            return self.scanned(self.bounded(x, 100))
        return self.reduced(kind, self.bounded(x, 100) if kind == "ReduceSum" else x, self.axes(x), self.chance(0.5))

    def softmax(self):
        x = self.some_float(lambda value: value.rank > 0)
        return x and self.like(self.pick(["Softmax", "Softmax", "LogSoftmax"]), x, axis=int(self.random.integers(-x.rank, x.rank)))

    def arg(self):
        x = self.some(lambda value: value.rank > 0 and value.dtype.kind != "b" and runs("ArgMax", value.dtype))
        if x is None:
            return None
        axis, keeps = int(self.random.integers(x.rank)), int(self.chance(0.5))
        shape = [1 if d == axis else extent for d, extent in enumerate(x.shape) if keeps or d != axis]
        names = [None if d == axis else name for d, name in enumerate(x.names) if keeps or d != axis]
        return self.node(self.pick(["ArgMax", "ArgMin"]), [x], np.int64, shape, names, axis=axis, keepdims=keeps, select_last_index=int(self.chance(0.3)))

    def top(self):
        fits = lambda value: value.rank > 0 and not all(value.names) and value.dtype.kind != "b" and runs("TopK", value.dtype)
        x = self.some(lambda value: fits(value) and value.dtype.kind == "u") or self.some(fits)  # few are of integers without a sign
        if x is None:
            return None
        axis = self.pick([d for d in range(x.rank) if not x.names[d]])
        count = int(self.pick([1, 2, x.shape[axis], max(1, x.shape[axis] // 2)]))
        count = min(count, x.shape[axis])
        shape = [count if d == axis else extent for d, extent in enumerate(x.shape)]
        results = [f"v{self.fresh()}_values", f"v{self.fresh()}_indices"]
        one = self.node("TopK", [x, self.constant(np.array([count], np.int64))], x.dtype, shape, x.names, outputs=results,
                        axis=axis - x.rank if self.chance(0.3) else axis, largest=int(self.chance(0.6)))
        if self.chance(0.5):
            self.keep(Value(results[1], np.int64, shape, x.names))
        return one

    def cumsum(self):
        x = self.some_float(lambda value: value.rank > 0)
        return x and self.scanned(self.tame(x))

    def scanned(self, x):
        axis = self.constant(np.array(int(self.random.integers(-x.rank, x.rank)), np.int64))
        return self.like("CumSum", x, axis, exclusive=int(self.chance(0.3)), reverse=int(self.chance(0.3)))

    # ------------------------------------------------------------------------------------------------------ normalizations

    def normalization(self):
        x = self.some_float(lambda value: self.last_is_known(value) and value.shape[-1] > 1)
        if x is None:
            return None
        centered = self.like("Sub", x, self.mean(x))
        variance = self.mean(self.like("Mul", centered, centered))
        scaled = self.like("Div", centered, self.like("Sqrt", self.like("Add", variance, self.number(0.1))))
        return self.like("Add", self.like("Mul", scaled, self.weight(x.shape[-1])), self.weight(x.shape[-1]))

    def mean(self, x):
        return self.reduced("ReduceMean", x, [x.rank - 1])

    def rms(self):
        x = self.some_float(self.last_is_known)
        if x is None:
            return None
        x = self.tame(x)
        root = self.like("Sqrt", self.like("Add", self.mean(self.like("Pow", x, self.number(2.0))), self.number(0.1)))
        return self.like("Mul", self.like("Mul", x, self.like("Reciprocal", root)), self.weight(x.shape[-1]))

    def named_normalization(self):
        """One that is a node."""
        kind = self.pick(["LayerNormalization", "LayerNormalization", "BatchNormalization", "InstanceNormalization"] +
                         ["RMSNormalization", "GroupNormalization"] * (self.opset > 22))
        if kind in ("LayerNormalization", "RMSNormalization"):
            x = self.some_float(lambda value: self.last_is_known(value) and value.shape[-1] > 1)
            if x is None:
                return None
            first = self.pick([d for d in range(x.rank) if not any(x.names[d:])])
            factors = [self.weight(*x.shape[first:]) for _ in range(1 if kind == "RMSNormalization" else int(self.pick([1, 2])))]
            return self.like(kind, self.tame(x), *factors, axis=first - x.rank if self.chance(0.5) else first, epsilon=0.1)
        if kind == "BatchNormalization":
            x = self.some_float(lambda value: value.rank > 1 and value.names[1] is None)
            return x and self.batch_normalization(x)
        x = self.some_float(lambda value: value.rank in (3, 4) and value.names[1] is None and np.prod(value.shape[2:]) > 1)
        if x is None:
            return None
        groups = {"num_groups": int(self.pick([g for g in (1, 2, x.shape[1]) if x.shape[1] % g == 0]))} if kind == "GroupNormalization" else {}
        return self.like(kind, self.tame(x), self.weight(x.shape[1]), self.weight(x.shape[1]), epsilon=0.1, **groups)

    def batch_normalization(self, x):
        channels = x.shape[1]
        variance = self.constant(self.random.uniform(0.5, 2, channels).astype(self.float))
        return self.like("BatchNormalization", x, self.weight(channels), self.weight(channels), self.weight(channels), variance)

    def channel_normalization(self):
        """Of the channels beside each one."""
        x = self.some_float(lambda value: value.rank == 4)
        return x and self.like("LRN", self.tame(x), size=int(self.pick([1, 3, 5])), alpha=self.pick([0.5, 1.5]), beta=self.pick([0.75, 0.5, 1.0]), bias=self.pick([1.0, 2.0]))
