# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tensors of strings: operators, compared with Python's own strings, and NumPy's types of strings as arguments."""
import re
import unittest

import heddle
import models
import numpy as np
from onnx import TensorProto, helper

STRING, BOOL, INT64 = TensorProto.STRING, TensorProto.BOOL, TensorProto.INT64
LETTERS = list("abcXYZ ,-äÖßéÉжЖωΩ漢🙂")


def texts(seed, shape, longest=9):
    random = np.random.default_rng(seed)
    made = ["".join(random.choice(LETTERS, random.integers(0, longest + 1))) for _ in range(int(np.prod(shape)))]
    return np.array(made, object).reshape(shape)


def module_of(nodes, inputs, outputs, initializers=(), opset=20):
    graph = helper.make_graph(nodes, "model", [models.value(*one) for one in inputs], [models.value(*one) for one in outputs], initializers)
    model = helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)])
    return heddle.open(heddle.compile(model, models.FOLDER / "strings.heddle"))


class Strings(unittest.TestCase):
    def same(self, got, wanted):
        got = heddle.strings(got)
        self.assertEqual((got.shape, got.tolist()), (wanted.shape, wanted.astype("U").tolist()))

    def test_joined_and_compared(self):
        words = helper.make_tensor("words", STRING, [3], ["äa".encode(), b"", b"a longer one than the others"])
        nodes = [helper.make_node("StringConcat", ["x", "y"], ["xy"]), helper.make_node("StringConcat", ["xy", "words"], ["joined"]),
                 helper.make_node("Equal", ["x", "y"], ["same"]), helper.make_node("Equal", ["x", "words"], ["known"]),
                 helper.make_node("Concat", ["x", "x", "y"], ["all"], axis=-2)]
        module = module_of(nodes, [("x", ["n", 3], STRING), ("y", ["n", 3], STRING)],
                           [("joined", ["n", 3], STRING), ("same", ["n", 3], BOOL), ("known", ["n", 3], BOOL), ("all", ["m", 3], STRING)], [words])
        constant = np.array(["äa", "", "a longer one than the others"], object)
        for n in (1, 5, 0):
            x, y = texts(n, (n, 3), 2), texts(n + 1, (n, 3), 7)
            if n == 5:
                y[1], x[2], x[3, 2] = x[1], constant, "a longer one than the other"
            joined, same, known, both = module(x, y)
            self.same(joined, x + y + constant)
            np.testing.assert_array_equal(same, x == y)
            np.testing.assert_array_equal(known, x == constant)
            self.same(both, np.concatenate([x, x, y]))

    def test_what_is_no_text_is_a_heddle_error(self):
        module = module_of([helper.make_node("StringConcat", ["x", "x"], ["z"])], [("x", ["n"], STRING)], [("z", ["n"], STRING)])
        for kind in ("U", object):
            with self.assertRaisesRegex(heddle.InvalidArgumentError, "surrogates"):
                module(np.array(["a", "\ud800"], kind))

        class Column:  # such as a table's, which is no array
            dtype = np.dtype(object)

        with self.assertRaises(heddle.Error):
            module(Column())

    def test_a_string_beside_many(self):
        module = module_of([helper.make_node("StringConcat", ["x", "y"], ["z"])], [("x", ["n", 1], STRING), ("y", [], STRING)], [("z", ["n", 1], STRING)])
        x = texts(3, (4, 1))
        self.same(module(x, np.array("é", "U1")), x + "é")

    def test_case_and_stop_words(self):
        x = np.array(["Äpfel", "the", "THE", "ΩMEGA", "", "ßtraße", "журнал", "漢字", "thé", "Thee"], object)
        for action, change in (("NONE", str), ("LOWER", str.lower), ("UPPER", lambda text: text.upper().replace("SS", "ß"))):
            for sensitive in (0, 1):
                node = helper.make_node("StringNormalizer", ["x"], ["y"], case_change_action=action, is_case_sensitive=sensitive,
                                        stopwords=["The", "thé", "ΩMEGA"][: 3 - sensitive])
                with module_of([node], [("x", ["n"], STRING)], [("y", ["m"], STRING)]) as module, self.subTest(action=action, sensitive=sensitive):
                    stop = {"thé"} if sensitive else {"the", "thé", "ωmega"}
                    kept = [change(one) for one in x if (one if sensitive else one.lower()) not in stop]
                    self.same(module(x), np.array(kept, object))
                    self.same(module(np.array(["thé"] * 3, object)), np.array([""], object))

    def test_parts(self):
        forms = [(dict(delimiter=","), ","), (dict(delimiter=", "), ", "), (dict(delimiter="-é"), "-é"), ({}, None), (dict(delimiter=""), None)]
        for seed, (attributes, delimiter) in enumerate(forms):
            for most in (None, 0, 1, 2):
                limit = {} if most is None else {"maxsplit": most}
                node = helper.make_node("StringSplit", ["x"], ["y", "z"], **attributes, **limit)
                with module_of([node], [("x", ["n", 2], STRING)], [("y", ["n", 2, "m"], STRING), ("z", ["n", 2], INT64)]) as module:
                    x = texts(seed, (12, 2), 12)
                    x[0] = [f" a{delimiter}b{delimiter}{delimiter}  c ", delimiter or "  "]
                    parts = [[text.split(delimiter, -1 if most is None else most) for text in row] for row in x]
                    longest = max(len(part) for row in parts for part in row)
                    got, counts = module(x)
                    with self.subTest(delimiter=delimiter, most=most):
                        self.same(got, np.array([[part + [""] * (longest - len(part)) for part in row] for row in parts], object))
                        np.testing.assert_array_equal(counts, [[len(part) for part in row] for row in parts])
                    self.assertEqual(module(np.zeros((0, 2), object))[0].shape[:2], (0, 2))

    def test_unique(self):
        names = ["y", "first", "back", "count"]
        for form in (dict(), dict(sorted=0), dict(axis=0), dict(axis=0, sorted=0)):
            outputs = [("y", None, STRING)] + [(name, ["m"], INT64) for name in names[1:]]
            with module_of([helper.make_node("Unique", ["x"], names, **form)], [("x", ["n", 3], STRING)], outputs) as module:
                for n in (1, 4, 40):
                    x = texts(n, (n, 3), 2)
                    x[n // 2] = x[0]
                    x[:, 2] = x[:, 0]
                    x[0, 1] = x[0, 0] + "\x01"  # equal but for what is behind the end of the other
                    parts = list(x.reshape(-1)) if "axis" not in form else [tuple(part) for part in np.moveaxis(x, form["axis"], 0)]
                    coded = [tuple(one.encode() for one in part) if isinstance(part, tuple) else part.encode() for part in parts]
                    wanted = sorted(set(coded)) if form.get("sorted", 1) else list(dict.fromkeys(coded))
                    got, first, back, count = module(x)
                    with self.subTest(form=form, n=n):
                        chosen = np.array([parts[coded.index(one)] for one in wanted], object)
                        self.same(got, chosen if "axis" not in form else np.moveaxis(chosen, 0, form["axis"]))
                        np.testing.assert_array_equal(first, [coded.index(one) for one in wanted])
                        np.testing.assert_array_equal(back, [wanted.index(one) for one in coded])
                        np.testing.assert_array_equal(count, [coded.count(one) for one in wanted])

    def test_moved(self):
        """Operators that move elements; `i` and `places` are data."""
        number = lambda name, *values: helper.make_tensor(name, INT64, [len(values)], values)
        constants = [number("flat", -1), number("rows", 3, -1), number("one", 1), number("ends", 3), number("last", -1), number("twice", 1, 2), number("tall", 2, 1, 1, 1)]
        nodes = [("Reshape", "x flat", {}), ("Reshape", "x rows", {}), ("Transpose", "x", dict(perm=[1, 0])), ("Gather", "x i", dict(axis=1)),
                 ("GatherElements", "x places", dict(axis=0)), ("Slice", "x one ends last", {}), ("Unsqueeze", "x one", {}), ("Flatten", "x", dict(axis=0)),
                 ("Tile", "x twice", {}), ("Expand", "x tall", {}), ("Where", "flags x y", {}), ("ScatterElements", "x places z", dict(axis=0)), ("Shape", "x", {}),
                 ("Compress", "x kept", dict(axis=0))]
        made = [helper.make_node(kind, names.split(), [f"o{at}"], **options) for at, (kind, names, options) in enumerate(nodes)]
        made.append(helper.make_node("Split", ["x"], ["first", "second"], axis=1, num_outputs=2))
        kinds = [INT64 if kind == "Shape" else STRING for kind, *_ in nodes]
        outputs = [(f"o{at}", None, kind) for at, kind in enumerate(kinds)] + [("first", None, STRING), ("second", None, STRING)]
        module = module_of(made, [("x", ["n", 6], STRING), ("y", [6], STRING), ("z", ["m", 6], STRING), ("i", [2], INT64), ("places", ["m", 6], INT64),
                                  ("flags", ["n", 1], BOOL), ("kept", ["n"], BOOL)], outputs, constants)
        for n in (3, 6):
            x, y, z, i, flags = texts(n, (n, 6)), texts(n + 1, (6,), 3), texts(n + 2, (2, 6), 20), np.array([5, -6]), np.arange(n) % 2 == 0
            places = np.stack([np.arange(6) % n, (np.arange(6) + 1) % n])
            got = module(x, y, z, i, places, flags[:, None], flags)
            scattered = x.copy()
            np.put_along_axis(scattered, places, z, 0)
            wanted = [x.reshape(-1), x.reshape(3, -1), x.T, x[:, i], np.take_along_axis(x, places, 0), x[:, 1:3], x[:, None], x.reshape(1, -1), np.tile(x, 2),
                      np.broadcast_to(x, (2, 1, n, 6)), np.where(flags[:, None], x, y), scattered, np.array(x.shape), x[flags], x[:, :3], x[:, 3:]]
            for (kind, *_), one, other in zip(nodes + [("Split",)] * 2, got, wanted, strict=True):
                with self.subTest(kind, n=n):
                    np.testing.assert_array_equal(one, other) if kind == "Shape" else self.same(one, other)

    def test_between_other_strings(self):
        """Operators that put empty strings between the others."""
        number = lambda name, *values: helper.make_tensor(name, INT64, [len(values)], values)
        nodes = [helper.make_node("Pad", ["x", "pads"], ["a"]), helper.make_node("Pad", ["x", "pads", "dot"], ["b"]), helper.make_node("Trilu", ["x"], ["c"]),
                 helper.make_node("NonZero", ["x"], ["d"]), helper.make_node("OneHot", ["i", "depth", "answers"], ["e"])]
        constants = [number("pads", 1, 0, 0, 2), number("depth", 3), helper.make_tensor("dot", STRING, [], ["…".encode()]), helper.make_tensor("answers", STRING, [2], [b"no", b"yes!"])]
        module = module_of(nodes, [("x", ["n", 4], STRING), ("i", [2], INT64)], [(name, None, INT64 if name == "d" else STRING) for name in "abcde"], constants)
        for n in (4, 1):
            x = texts(n, (n, 4), 2)
            a, b, c, d, e = module(x, np.array([2, 0]))
            self.same(a, np.pad(x, ((1, 0), (0, 2)), constant_values=""))
            self.same(b, np.pad(x, ((1, 0), (0, 2)), constant_values="…"))
            self.same(c, np.where(np.triu(np.ones(x.shape, bool)), x, ""))
            np.testing.assert_array_equal(d, np.nonzero(x != ""))
            self.same(e, np.array([["no", "no", "yes!"], ["yes!", "no", "no"]], object))

    def test_in_control_flow(self):
        words = helper.make_tensor("words", STRING, [2], ["a longer one".encode(), "é".encode()])
        branch = lambda name, source: helper.make_graph([helper.make_node("Identity", [source], [name])], name, [], [models.value(name, None, STRING)])
        numbered = [models.value("i", [], INT64), models.value("c", [], BOOL)]
        longer = helper.make_graph([helper.make_node("StringConcat", ["in", "x"], ["out"])], "longer", [*numbered, models.value("in", [2], STRING)],
                                   [models.value("c", [], BOOL), models.value("out", [2], STRING)])
        more = helper.make_graph([helper.make_node("Concat", ["in", "x"], ["out"], axis=0), helper.make_node("Gather", ["both", "i"], ["row"])], "more",
                                 [*numbered, models.value("in", ["m"], STRING)], [models.value("c", [], BOOL), models.value("out", ["k"], STRING), models.value("row", [2], STRING)])
        step = helper.make_graph([helper.make_node("Identity", ["slice"], ["next"]), helper.make_node("StringConcat", ["slice", "mark"], ["row"])], "step",
                                 [models.value("last", [2], STRING), models.value("slice", [2], STRING)], [models.value("next", [2], STRING), models.value("row", [2], STRING)])
        nodes = [helper.make_node("If", ["cond"], ["known"], then_branch=branch("a", "words"), else_branch=branch("b", "short")),
                 helper.make_node("If", ["cond"], ["given"], then_branch=branch("a2", "x"), else_branch=branch("b2", "y")),
                 helper.make_node("Loop", ["steps", "", "x"], ["long"], body=longer), helper.make_node("Loop", ["steps", "", "x"], ["many", "rows"], body=more),
                 helper.make_node("Scan", ["x", "both"], ["end", "stacked"], body=step, num_scan_inputs=1, scan_output_axes=[-1])]
        short = helper.make_tensor("short", STRING, [2], [b"b", b""])
        mark = helper.make_tensor("mark", STRING, [], ["¡".encode()])
        module = module_of(nodes, [("x", [2], STRING), ("y", [2], STRING), ("both", [3, 2], STRING), ("cond", [], BOOL), ("steps", [], INT64)],
                           [(name, None, STRING) for name in ("known", "given", "long", "many", "rows", "end", "stacked")], [words, short, mark])
        for seed, (cond, steps) in enumerate(((True, 3), (False, 2), (True, 1), (False, 0))):
            x, y, both = texts(seed, (2,), 3), texts(seed + 9, (2,)), texts(seed + 20, (3, 2))
            x[0] += "x"
            known, given, long, many, rows, end, stacked = module(x, y, both, np.array(cond), np.array(steps))
            with self.subTest(cond=cond, steps=steps):
                self.same(known, np.array(["a longer one", "é"] if cond else ["b", ""], object))
                self.same(given, x if cond else y)
                self.same(long, x * (steps + 1))
                self.same(many, np.concatenate([x] * (steps + 1)))
                self.same(rows, both[:steps])
                self.same(end, both[-1])
                self.same(stacked, both.T + "¡")

    def test_in_sequences(self):
        long = helper.make_tensor("long", STRING, [1], ["ein längeres Wort".encode()])
        parts = helper.make_tensor("parts", INT64, [2], [1, 2])
        twice = helper.make_graph([helper.make_node("StringConcat", ["one", "one"], ["both"])], "twice", [models.value("one", None, STRING)], [models.value("both", None, STRING)])
        grown = helper.make_graph([helper.make_node("SequenceInsert", ["s_in", "x"], ["s_out"])], "grown",
                                  [models.value("i", [], INT64), models.value("c", [], BOOL), helper.make_tensor_sequence_value_info("s_in", STRING, None)],
                                  [models.value("c", [], BOOL), helper.make_tensor_sequence_value_info("s_out", STRING, None)])
        nodes = [helper.make_node("SequenceConstruct", ["x", "long", "y"], ["s"]), helper.make_node("SequenceAt", ["s", "at"], ["found"]),
                 helper.make_node("SequenceErase", ["s", "at"], ["left"]), helper.make_node("ConcatFromSequence", ["left"], ["joined"], axis=0),
                 helper.make_node("SplitToSequence", ["y", "parts"], ["two"], axis=-1), helper.make_node("SequenceMap", ["two"], ["mapped"], body=twice),
                 helper.make_node("SequenceEmpty", [], ["none"], dtype=STRING), helper.make_node("SequenceInsert", ["none", "x"], ["only"]),
                 helper.make_node("Loop", ["steps", "", "only"], ["more"], body=grown), helper.make_node("SequenceLength", ["more"], ["count"]),
                 helper.make_node("ConcatFromSequence", ["more"], ["stack"], axis=0, new_axis=1), helper.make_node("SequenceInsert", ["given", "long"], ["given_more"]),
                 helper.make_node("Optional", ["x"], ["maybe"]), helper.make_node("OptionalGetElement", ["maybe"], ["got"])]
        sequence = helper.make_tensor_sequence_value_info
        graph = helper.make_graph(nodes, "model", [models.value("x", ["n"], STRING), models.value("y", [3], STRING), models.value("at", [], INT64), sequence("given", STRING, ["m"])],
                                  [models.value("found", None, STRING), models.value("joined", None, STRING), sequence("mapped", STRING, None), models.value("count", [], INT64),
                                   models.value("stack", None, STRING), sequence("given_more", STRING, None), models.value("got", None, STRING)],
                                  [long, parts, helper.make_tensor("steps", INT64, [], [2])])
        model = helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 20)])
        module = heddle.open(heddle.compile(model, models.FOLDER / "sequences.heddle", options=["--specialize", "given=2"]))
        self.assertEqual([one.name for one in module.main.arguments], ["x", "y", "at", "given[0]", "given[1]"])
        for n in (3, 1):
            x, y, a, b, word = texts(n, (n,), 30), texts(n + 1, (3,)), texts(n + 2, (2,)), texts(n + 3, (1,)), np.array(["ein längeres Wort"], object)
            for at in (0, 1, 2, -1):
                found, joined, first, second, count, stack, *given, got = module(x, y, np.array(at), a, b)
                with self.subTest(n=n, at=at):
                    self.same(found, [x, word, y][at])
                    self.same(joined, np.concatenate([one for place, one in enumerate((x, word, y)) if place != at % 3]))
                    self.same(first, y[:1] * 2)
                    self.same(second, y[1:] * 2)
                    self.assertEqual(count.item(), 3)
                    self.same(stack, np.stack([x, x, x]))
                    for one, wanted in zip(given, (a, b, word), strict=True):
                        self.same(one, wanted)
                    self.same(got, x)

    def test_none_are_moved(self):
        module = module_of([helper.make_node("Transpose", ["x"], ["y"]), helper.make_node("Where", ["z", "x", "x"], ["w"])], [("x", ["n", 2], STRING), ("z", [1], BOOL)],
                           [("y", None, STRING), ("w", None, STRING)])
        for x in (texts(1, (0, 2)), texts(2, (1, 2))):
            y, w = module(x, np.array([True]))
            self.same(y, x.T)
            self.same(w, x)

    def test_tokens(self):
        lines = np.array(["the cat, the Dog", "", "a", "  b1_c-dé 漢字é", "é", "aab b a__", "\n-x-", "word" * 9], object)
        forms = [(dict(tokenexp=r"\w+"), r"\w+"), (dict(tokenexp=r"\b\w\w+\b"), r"\w\w+"), (dict(tokenexp="[a-z]{2,}", mincharnum=3), "[a-z]{3,}"), (dict(tokenexp="."), "."),
                 (dict(tokenexp=r"[^\s,]+", mincharnum=2), r"[^ \t\n\r\f,]{2,}"), (dict(separators=[""]), r"(?s:.)"), (dict(separators=[" ", "[,-]"]), "[^ ,-]+"), (dict(tokenexp="[ab]"), "[ab]")]
        nodes = [helper.make_node("Tokenizer", ["x"], [f"y{i}"], domain="com.microsoft", mark=0, pad_value="#é" if i else "", **{"mincharnum": 1, **form}) for i, (form, _) in enumerate(forms)]
        graph = helper.make_graph(nodes, "tokens", [models.value("x", ["n"], STRING)], [models.value(f"y{i}", None, STRING) for i in range(len(forms))])
        model = helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)])
        module = heddle.open(heddle.compile(model, models.FOLDER / "tokens.heddle"))
        for x in (lines, lines[1:2], lines[:0]):
            for i, ((form, pattern), got) in enumerate(zip(forms, module(x), strict=True)):
                parts = [re.findall(pattern, line, re.ASCII) for line in x]
                longest = max((len(part) for part in parts), default=0)
                with self.subTest(form, lines=len(x)):
                    self.same(got, np.array([part + ["#é" if i else ""] * (longest - len(part)) for part in parts], object).reshape(len(x), longest))

    def test_patterns(self):
        lines = np.array(["", "a", "aa", "ab", "éa", "漢字", "user@mail.com", "www.a-b.com", "12-34", "x_1 y", "a\nb", "aab", "Ж"], object)
        patterns = ["", "a*", "a|é.", "(ab?)+", "[^a-é]+", r"\w+@\w+\.(com|org)", r"www\.[\w.-]+\.\bcom\b", r"\d{2}-\d{2,}", r"^\D+$", r"a\x{e9}?|\x41", r"\w+\b \By?.*|y",
                    "(?:a|aa|(?P<n>b)){2}", "[[:alpha:]]+", ".*b", r"[\d\-]+", "..", "a??b"]
        nodes = [helper.make_node("RegexFullMatch", ["x"], [f"y{i}"], pattern=pattern) for i, pattern in enumerate(patterns)]
        module = module_of(nodes, [("x", ["n"], STRING)], [(f"y{i}", ["n"], BOOL) for i in range(len(patterns))])
        for pattern, got in zip(patterns, module(lines), strict=True):
            meant = re.compile(pattern.replace(r"\x{e9}", "é").replace("[[:alpha:]]", "[a-zA-Z]"), re.ASCII)
            np.testing.assert_array_equal(got, [meant.fullmatch(line) is not None for line in lines], pattern)
        self.assertEqual(module(lines[:0])[0].shape, (0,))

    def test_arrays_of_every_type(self):
        module = module_of([helper.make_node("Equal", ["x", "y"], ["z"])], [("x", [2], STRING), ("y", [2], STRING)], [("z", [2], BOOL)])
        coded = np.array(["äb".encode(), b"c"])
        for x in (np.array(["äb", "c"]), np.array(["äb", "c"], object), coded, coded.view(np.uint8).reshape(2, 3)):
            np.testing.assert_array_equal(module(x, np.array(["äb", "d"])), [True, False])
        with self.assertRaisesRegex(heddle.Error, "'x'"):
            module(np.array(["a", 5], object), coded)
        with self.assertRaisesRegex(heddle.Error, "got float32"):
            heddle.strings(np.zeros(3, np.float32))
        with self.assertRaisesRegex(heddle.Error, "not UTF-8"):
            heddle.strings(np.full((1, 2), 0xFF, np.uint8))

    def test_what_is_refused(self):
        def said(*words, nodes, **options):
            with self.assertRaises(heddle.Error) as caught:
                module_of(nodes, [("x", [2], STRING)], [("y", [2], STRING)], **options)
            for word in words:
                self.assertIn(word, str(caught.exception))

        said("StringSplit", "'aa'", "overlap", nodes=[helper.make_node("StringSplit", ["x"], ["y", "z"], delimiter="aa")])
        said("element type STRING", "TopK", nodes=[helper.make_node("TopK", ["x", "k"], ["y", "i"])], initializers=[helper.make_tensor("k", INT64, [1], [1])])
        said("'w'", "not UTF-8", nodes=[helper.make_node("StringConcat", ["x", "w"], ["y"])], initializers=[helper.make_tensor("w", STRING, [1], [b"\xff"])])
        words = helper.make_tensor("w", STRING, [1], [b"a"])
        words.dims[0] = 3
        said("'w'", "1 strings", "says 3", nodes=[helper.make_node("StringConcat", ["x", "w"], ["y"])], initializers=[words])
        for pattern, cause in (("(a", "does not end"), ("a**", "repeats"), ("*", "comes before"), ("[b-a]", "in order"), ("(?i)a", "not supported"), (r"\pL", "not supported"),
                               ("((((a{1000}){1000}){1000}){1000})", "too large"), ("(a|b)*a(a|b){20}", "4096 states")):
            said(cause, "RegexFullMatch", nodes=[helper.make_node("RegexFullMatch", ["x"], ["y"], pattern=pattern)])
        for options, cause in ((dict(tokenexp="ab+"), "'ab+' is not supported"), (dict(tokenexp="a*"), "the empty string"), (dict(tokenexp="[é]+"), "beyond ASCII"),
                               (dict(tokenexp=r"\b[a-z]+\b"), "boundaries of words"), (dict(tokenexp="^a"), "beside a token"), (dict(tokenexp="(a"), "does not end"),
                               (dict(separators=["ab"]), "'ab'"), ({}, "neither tokenexp nor separators"), (dict(tokenexp="a", mark=1), "mark 1"),
                               (dict(tokenexp="a+", mincharnum=0), "mincharnum 0")):
            said(cause, "Tokenizer", nodes=[helper.make_node("Tokenizer", ["x"], ["y"], domain="com.microsoft", **{"mark": 0, "mincharnum": 1, "pad_value": "", **options})])
        said("reduction 'add'", nodes=[helper.make_node("ScatterElements", ["x", "k", "x"], ["y"], reduction="add")], initializers=[helper.make_tensor("k", INT64, [2], [0, 1])])
        said("one element type", "STRING", nodes=[helper.make_node("SequenceConstruct", ["x", "k"], ["s"]), helper.make_node("SequenceAt", ["s", "k"], ["y"])],
             initializers=[helper.make_tensor("k", INT64, [], [0])])
        said("case_change_action 'BOTH'", nodes=[helper.make_node("StringNormalizer", ["x"], ["y"], case_change_action="BOTH")])


if __name__ == "__main__":
    unittest.main()
