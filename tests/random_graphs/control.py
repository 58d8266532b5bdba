# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Control flow, whose bodies are small random graphs that read values from outside; extents that data decides; sequences."""
import numpy as np
from onnx import helper

from pieces import BOOL, INTS, MOST_ELEMENTS, ONNX_TYPE, Pieces, Value, is_float, joined

DEEPEST = 2
MOST_STEPS = 5


class Control(Pieces):
    def controlled(self):
        makers = [self.conditional, self.conditional, self.loop, self.loop, self.growing_loop, self.scan, self.extents]
        if not self.depth:
            makers += [self.counted_by_data] * 3
        return self.pick(makers)() if self.depth < DEEPEST else None

    # -------------------------------------------------------------------------------------------------------------- bodies

    def body(self, inputs, most):
        """Values of a nested graph of up to so many pieces; what it is made of is in self.nodes until `graph_of` or `leave`."""
        self.outside.append((self.nodes, self.values))
        self.nodes, self.values = [], self.values + inputs
        first = len(self.values)
        for _ in range(int(self.random.integers(1, most + 1))):
            self.grow()
        return self.values[first:]

    def graph_of(self, inputs, results, what):
        """The nested graph, whose results are nodes' own."""
        results = [self.like("Identity", value) for value in results]
        kinds = [helper.make_tensor_value_info(node.output[0], ONNX_TYPE[self.types[node.output[0]]], None) for node in self.nodes if len(node.output) == 1]
        graph = helper.make_graph(self.nodes, f"{what}_{self.fresh()}", [self.info(value) for value in inputs], [self.info(value) for value in results],
                                  value_info=[kind for kind in kinds if kind.name not in {value.name for value in results}])
        self.nodes, self.values = self.outside.pop()
        return graph

    def info(self, value):
        return helper.make_tensor_value_info(value.name, ONNX_TYPE[value.dtype], [name or extent for extent, name in zip(value.shape, value.names)])

    def inner(self, dtype, shape, names=None):
        return Value(f"b{self.fresh()}", dtype, shape, names)

    def symbol(self):
        return f"s{self.fresh()}"

    def changed(self, x, made):
        """A value like x, made of it and of one of the others if one broadcasts to it. It stays small."""
        other = next((value for value in reversed(made) if value.dtype == x.dtype and value.name != x.name and joined(x, value) == (x.shape, x.names)), None)
        if x.dtype == BOOL:
            return self.like("Xor", x, other) if other else self.like("Not", x)
        if is_float(x.dtype):
            half = self.like("Mul", self.tame(x), self.number(0.5))
            return self.like("Add", half, self.like("Tanh", other)) if other else self.like("Add", half, self.number(0.25))
        if x.dtype in INTS:
            return self.like("Sub", self.bounded(x, 20), self.bounded(other, 20) if other else self.number(1, x.dtype))
        return self.like("Add", x, other if other else self.number(1, x.dtype))

    def row_of(self, made, states, most):
        """The last value that can be stacked: one of the extents that values outside and states have."""
        known = {name for values in (self.outside[-1][1], states) for value in values for name in value.names}
        return next((value for value in reversed(made) if value.size <= most and known.issuperset(filter(None, value.names))), None)

    def stated(self, array):
        """An input that is the same in each call, so that what it decides is known here."""
        array = np.asarray(array)
        value = Value(f"x{len(self.inputs)}", array.dtype, array.shape)
        self.inputs.append(value)
        self.feeds[value.name] = array
        self.fixed.add(value.name)
        return value

    def count(self, number):
        """A scalar i64: a constant, or an input outside of bodies; and whether it is one."""
        if not self.depth and self.chance(0.5):
            return self.stated(np.array(number, np.int64)), True
        return Value(self.number(number, np.int64), np.int64, ()), False

    @property
    def depth(self):
        return len(self.outside)

    # ------------------------------------------------------------------------------------------------------------ branches

    def condition(self):
        x = self.some(lambda value: value.size > 0)
        if x is None or not self.depth and self.chance(0.4):
            return self.input_of(BOOL, []) if not self.depth else Value(self.number(self.chance(0.5), BOOL), BOOL, ())
        if x.dtype != self.float:
            x = self.like("Cast", x, dtype=self.float, to=ONNX_TYPE[self.float])
        x = self.tame(x)
        sums = self.node("ReduceMean", [x], x.dtype, (), keepdims=0)
        return self.like("Greater", sums, self.number(0.1), dtype=BOOL)

    def conditional(self):
        wanted = [value for value in (self.some() for _ in range(int(self.pick([1, 1, 2])))) if value is not None and value.size <= MOST_ELEMENTS]
        if not wanted:
            return None
        condition, graphs = self.condition(), []
        for branch in ("then", "else"):
            made = self.body([], 3)
            graphs.append(self.graph_of([], [self.changed(value, made) for value in wanted], branch))
        return self.results("If", [condition], wanted, then_branch=graphs[0], else_branch=graphs[1])

    def results(self, operator, inputs, wanted, **attributes):
        """One node of several results like those; all are kept but the last, which is returned."""
        values = [Value(f"v{self.fresh()}", value.dtype, value.shape, value.names) for value in wanted]
        self.node(operator, inputs, values[0].dtype, (), outputs=[value.name for value in values], **attributes)
        for value in values[:-1]:
            self.keep(value)
        return values[-1]

    # --------------------------------------------------------------------------------------------------------------- loops

    def loop(self):
        """Of a number of steps that is known or data, and may end early."""
        carried = [value for value in (self.some() for _ in range(int(self.pick([1, 1, 2])))) if value is not None and value.size <= MOST_ELEMENTS // 2]
        if not carried:
            return None
        steps = int(self.pick([1, 2, 3, MOST_STEPS]))
        most, is_data = self.count(steps)
        last, ends_early = None, self.chance(0.4)
        if ends_early:
            number = int(self.random.integers(0, MOST_STEPS))
            last, _ = self.count(number)
            is_data, steps = True, min(steps, number + 1)
        iteration, condition = self.inner(np.int64, ()), self.inner(BOOL, ())
        states = [self.inner(value.dtype, value.shape, value.names) for value in carried]
        made = self.body([iteration, *states], 4)
        goes_on = self.like("Less", iteration, last, dtype=BOOL) if ends_early else condition
        states_then = [self.changed(value, made) for value in states]
        each = self.row_of(made, states, MOST_ELEMENTS // MOST_STEPS) if self.chance(0.6) else None
        results = [goes_on, *states_then] + ([each] if each else [])
        graph = self.graph_of([iteration, condition, *states], results, "loop")
        wanted = list(carried)
        if each:
            wanted.append(Value("", each.dtype, (steps, *each.shape), (self.symbol() if is_data else None, *each.names)))
        start = self.pick(["", self.number(True, BOOL)])
        return self.results("Loop", [most, start, *carried], wanted, body=graph)

    def growing_loop(self):
        """A value that each step makes longer."""
        x = self.some(lambda value: value.rank > 0 and value.shape[0] <= 8 and value.size <= MOST_ELEMENTS // (2 * MOST_STEPS))
        if x is None:
            return None
        steps = int(self.pick([1, 2, 3]))
        most, _ = self.count(steps)
        iteration, condition = self.inner(np.int64, ()), self.inner(BOOL, ())
        state = self.inner(x.dtype, x.shape, (self.symbol(), *x.names[1:]))
        more = Value(x.name, x.dtype, x.shape, x.names)
        made = self.body([iteration], 2)
        longer = self.node("Concat", [state, self.changed(more, made)], x.dtype, (x.shape[0] * 2, *x.shape[1:]), (self.symbol(), *x.names[1:]), axis=0)
        graph = self.graph_of([iteration, condition, state], [condition, longer], "loop")
        result = Value("", x.dtype, (x.shape[0] * (1 + steps), *x.shape[1:]), (self.symbol(), *x.names[1:]))
        return self.results("Loop", [most, "", x], [result], body=graph)

    def scan(self):
        rows = self.some(lambda value: value.rank > 0 and value.shape[0] <= 17 and value.size > 0)
        state = self.some(lambda value: value.size <= MOST_ELEMENTS // 2)
        if rows is None or state is None:
            return None
        extent, name = rows.shape[0], rows.names[0]
        row, before = self.inner(rows.dtype, rows.shape[1:], rows.names[1:]), self.inner(state.dtype, state.shape, state.names)
        made = self.body([row, before], 4)
        each = self.row_of(made, [row, before], MOST_ELEMENTS // extent)
        after = self.changed(before, [*made, row])
        graph = self.graph_of([before, row], [after] + ([each] if each else []), "scan")
        wanted = [state] + ([Value("", each.dtype, (extent, *each.shape), (name, *each.names))] if each else [])
        directions = {"scan_input_directions": [1]} if self.chance(0.3) else {}
        if each and self.chance(0.3):
            directions["scan_output_directions"] = [1]
        return self.results("Scan", [state, rows], wanted, body=graph, num_scan_inputs=1, **directions)

    # ------------------------------------------------------------------------------------------------- extents from data

    def counted_by_data(self):
        return self.pick([self.places, self.compressed, self.distinct, self.largest, self.expanded, self.ranged, self.cut, self.tiled, self.pieces])()

    def places(self):
        bits = self.random.random(self.shape(int(self.pick([1, 2, 3])))) < 0.4
        if not bits.any():
            return None
        return self.node("NonZero", [self.stated(bits)], np.int64, (bits.ndim, int(bits.sum())), (None, self.symbol()))

    def compressed(self):
        x = self.some(lambda value: value.rank > 0 and not all(value.names))
        if x is None:
            return None
        axis = self.pick([d for d in range(x.rank) if not x.names[d]])
        bits = self.random.random(x.shape[axis]) < 0.6
        if not bits.any():
            return None
        shape, names = list(x.shape), list(x.names)
        shape[axis], names[axis] = int(bits.sum()), self.symbol()
        return self.node("Compress", [x, self.stated(bits)], x.dtype, shape, names, axis=axis)

    def distinct(self):
        numbers = self.random.integers(-4, 5, self.extent()).astype(self.pick(INTS))
        name, count = self.symbol(), len(np.unique(numbers))
        values = [Value(f"v{self.fresh()}", numbers.dtype, (count,), (name,)), Value(f"v{self.fresh()}", np.int64, (count,), (name,)),
                  Value(f"v{self.fresh()}", np.int64, numbers.shape), Value(f"v{self.fresh()}", np.int64, (count,), (name,))]
        self.node("Unique", [self.stated(numbers)], np.int64, (), outputs=[value.name for value in values], sorted=1)
        for value in values[1:]:
            self.keep(value)
        return values[0]

    def largest(self):
        x = self.some_float(lambda value: self.last_is_known(value) and value.size > 0)
        if x is None:
            return None
        count = int(self.random.integers(1, x.shape[-1] + 1))
        values = Value("", x.dtype, (*x.shape[:-1], count), (*x.names[:-1], self.symbol()))
        return self.results("TopK", [x, self.stated(np.array([count], np.int64))], [Value("", np.int64, values.shape, values.names), values][::-1], axis=-1)

    def expanded(self):
        x = self.some(lambda value: value.is_known and value.rank < 4)
        if x is None:
            return None
        shape = [int(self.pick([2, 3, 5]))] + [int(self.pick([1, 2, 4])) if extent == 1 else extent for extent in x.shape]
        if np.prod(shape) > MOST_ELEMENTS:
            return None
        return self.node("Expand", [x, self.stated(np.array(shape, np.int64))], x.dtype, shape, [self.symbol() for _ in shape])

    def ranged(self):
        count, start, step = self.extent(), int(self.random.integers(-5, 6)), int(self.pick([1, 2, -3]))
        given = [self.stated(np.array(number, np.int64)) for number in (start, start + count * step)]
        return self.node("Range", [*given, self.number(step, np.int64)], np.int64, (count,), (self.symbol(),))

    def cut(self):
        x = self.some(lambda value: value.rank > 0 and not all(value.names))
        if x is None:
            return None
        axis = self.pick([d for d in range(x.rank) if not x.names[d]])
        first = int(self.random.integers(x.shape[axis]))
        end = int(self.random.integers(first + 1, x.shape[axis] + 1))
        step = int(self.pick([1, 1, 2]))
        shape, names = list(x.shape), list(x.names)
        shape[axis], names[axis] = len(range(first, end, step)), self.symbol()
        given = [self.stated(np.array([number], np.int64)) for number in (first, end)]
        return self.node("Slice", [x, *given, self.constant(np.array([axis], np.int64)), self.constant(np.array([step], np.int64))], x.dtype, shape, names)

    def tiled(self):
        x = self.some(lambda value: value.rank > 0 and value.is_known)
        if x is None:
            return None
        repeats = [int(self.pick([1, 1, 2, 3])) for _ in x.shape]
        shape = [extent * count for extent, count in zip(x.shape, repeats)]
        if np.prod(shape) > MOST_ELEMENTS:
            return None
        return self.node("Tile", [x, self.stated(np.array(repeats, np.int64))], x.dtype, shape, [self.symbol() for _ in shape])

    def extents(self):
        x = self.some(lambda value: value.rank > 0)
        if x is None:
            return None
        first = int(self.random.integers(x.rank))
        return self.node("Shape", [x], np.int64, (x.rank - first,), start=first) if self.chance(0.7) else self.node("Size", [x], np.int64, ())

    # ----------------------------------------------------------------------------------------------------------- sequences

    def pieces(self):
        """One of the parts of a value, or all of them, with one more."""
        x = self.some(lambda value: value.rank > 0 and not value.names[0] and value.shape[0] > 1)
        if x is None:
            return None
        size = self.pick([extent for extent in range(1, x.shape[0] + 1) if x.shape[0] % extent == 0 and x.shape[0] // extent <= 8] or [x.shape[0]])
        count = x.shape[0] // size
        parts = self.node("SplitToSequence", [x, self.number(size, np.int64)], x.dtype, (), axis=0)
        if self.chance(0.4):
            at = int(self.random.integers(-count, count))
            return self.node("SequenceAt", [parts, self.number(at, np.int64)], x.dtype, (size, *x.shape[1:]), x.names)
        if self.chance(0.5):
            more = self.node("SequenceAt", [parts, self.number(0, np.int64)], x.dtype, (size, *x.shape[1:]), x.names)
            parts, count = self.node("SequenceInsert", [parts, more, self.number(int(self.random.integers(count)), np.int64)], x.dtype, ()), count + 1
        if size * count * np.prod(x.shape[1:]) > MOST_ELEMENTS:
            return None
        return self.node("ConcatFromSequence", [parts], x.dtype, (size * count, *x.shape[1:]), x.names, axis=0)
