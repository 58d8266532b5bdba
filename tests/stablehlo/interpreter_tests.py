# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""StableHLO's own tests of its interpreter as cases: the functions below stablehlo/tests/interpret and stablehlo/testdata of a clone of
github.com/openxla/stablehlo whose RUN lines interpret them. What a function computes with constants becomes a function of arguments, and what it
checks becomes its results. Needs jaxlib, through the module heddle.stablehlo."""
import collections
import pathlib
import re

import numpy as np

import dense_values

# Parts of the specification that Heddle leaves out, and tests of the interpreter itself.
EXCLUDED = {
    "collectives and transfers between processes": re.compile(
        r"stablehlo\.(all_gather|all_reduce|all_to_all|collective_\w+|reduce_scatter|infeed|outfeed|send|recv|replica_id|partition_id|async_\w+)\b|interpreter\.run_parallel"),
    "the interpreter's own instrumentation, printing and arguments": re.compile(r"interpreter\.(probe|print)|FileCheck"),
}
FUNCTIONS = re.compile(r"^(?=func\.func)", re.MULTILINE)
CALLS = re.compile(r"\bcall @|decomposition = @|@main\b")
INTERPRETED = re.compile(r"^// RUN:.*--interpret", re.MULTILINE)
CHECK = re.compile(r"^(\s*)check\.(\w+) (.*)$")
PRIMITIVE = re.compile(r"^(.*?)_(?:b?float\d+|u?int\d+|complex\d+|bool|shape|dtype|axes|lhs|operand|dynamic|dimension|inshape|i\d+|n_)")


class NoCase(Exception):
    """A function that is no case, and why."""


def split_at_top(text, separator=","):
    """Parts of a text at commas that are in no brackets."""
    parts, depth, quoted = [""], 0, False
    for previous, letter in zip(" " + text, text):
        quoted ^= letter == '"'
        depth += (letter in "([{<") - (letter in ")]}" or (letter == ">" and previous != "-")) if not quoted else 0
        if letter == separator and not depth and not quoted:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def generic_check(indent, kind, rest):
    """An op of the check dialect, which jaxlib does not have, in generic form."""
    attributes = {name: value for name, value in re.findall(r"(tolerance|min_ulp_difference|max_ulp_difference) = ([-\d.eE+]+)", rest)}
    if kind.endswith("_const"):
        value, _, literal = rest.partition(", ")
        literal = re.sub(r", tolerance = [-\d.eE+]+", "", re.sub(r"\s*\{[^{}]*\}\s*$", "", literal))
        operands, types = [value], [literal.rpartition(" : ")[2]]
        extra = f"value = {literal}"
    else:
        before, _, after = rest.rpartition(" : ")
        parts = split_at_top(before)
        operands = [part for part in parts if part.startswith("%")]
        types = split_at_top(re.sub(r"\s*\{[^{}]*\}\s*$", "", after))
        types = types * len(operands) if len(types) == 1 else types
        extra = ""
    given = [extra] if extra else []
    given += [f'{name} = "{value}"' for name, value in attributes.items()]
    return f'{indent}"check.{kind}"({", ".join(operands)}) {{{", ".join(given)}}} : ({", ".join(types)}) -> ()'


def with_generic_checks(text):
    """Checks may go over several lines: they end where the brackets are closed."""
    lines, made = iter(text.splitlines()), []
    for line in lines:
        found = CHECK.match(line)
        if not found:
            made.append(line)
            continue
        rest = found[3]
        while rest.count("[") > rest.count("]") or rest.count("<") > rest.count(">") or rest.rstrip().endswith(",") or " : " not in rest:
            rest += " " + next(lines).strip()
        made.append(generic_check(found[1], found[2], rest))
    return "\n".join(made)


def constant_of(operation):
    """The values of an op stablehlo.constant."""
    text = operation.get_asm(print_generic_op_form=True, assume_verified=True)
    found = re.search(r"value = (dense<.*?>(?: : tensor<[^{}]*>))\}>", text, re.DOTALL)
    if not found:
        raise NoCase("a constant is not dense<...>")
    return dense_values.values(found[1])


def literal_of(operation, name):
    text = operation.get_asm(print_generic_op_form=True, assume_verified=True)
    found = re.search(name + r" = (dense<.*?> : tensor<[^{}]*?>)[,}]", text, re.DOTALL)
    if not found:
        raise NoCase(f"attribute {name} of a check is not dense<...>")
    return dense_values.values(found[1])


def given_number(operation, name, otherwise):
    return type(otherwise)(operation.attributes[name].value) if name in operation.attributes else otherwise


def rule_of(operation, kind, is_custom_call):
    """The check as the interpreter does it; custom calls have tolerances of their own (tools/StablehloTranslateMain.cpp)."""
    if "almost_eq" in kind:
        return {"kind": "near", "tolerance": 0.001 if is_custom_call else given_number(operation, "tolerance", 1e-4)}
    if "close" in kind:
        return {"kind": "ulps", "least": given_number(operation, "min_ulp_difference", 0),
                "most": given_number(operation, "max_ulp_difference", 3 if is_custom_call else 1)}
    return {"kind": "equal"}


class Function:
    """A test function while it becomes a case: constants to arguments, checks to results."""

    def __init__(self, module, function, ir):
        self.module, self.function, self.ir = module, function, ir
        self.functions = {one.name.value: one for one in module.body.operations if one.operation.name == "func.func"}
        self.block = function.entry_block
        self.inputs, self.results, self.expected, self.checks = [], [], [], []

    def returned_constants(self, name):
        """What a function returns that only has constants, such as @inputs and @expected of JAX's test data."""
        operations = list(self.functions[name].entry_block.operations)
        return [self.owner(value) for value in operations[-1].operands]

    def owner(self, value):
        found = value.owner
        if isinstance(found, self.ir.Block):
            raise NoCase("an argument is checked against")
        return getattr(found, "operation", found)

    def known(self, value):
        """The values of an operand that is a constant, possibly of a function that returns constants. None for one that is computed."""
        owner = self.owner(value)
        if owner.name == "func.call":
            place = self.ir.OpResult(value).result_number
            owner = self.returned_constants(owner.attributes["callee"].value)[place]
        if owner.name != "stablehlo.constant":
            return None
        return constant_of(owner)

    def find_checks(self):
        for one in list(self.block.operations):
            operation = one.operation
            kind, is_custom_call = operation.name.removeprefix("check."), False
            if operation.name == "stablehlo.custom_call":
                kind, is_custom_call = operation.attributes["call_target_name"].value, True
            if not (operation.name.startswith("check.") or kind.startswith("check.")):
                continue
            kind = kind.removeprefix("check.")
            if kind not in ("expect_eq", "expect_almost_eq", "expect_close", "expect_eq_const", "expect_almost_eq_const", "eq"):
                raise NoCase(f"check {kind}")
            self.results.append(operation.operands[0])
            self.expected.append(literal_of(operation, "value") if kind.endswith("_const") else self.known(operation.operands[1]))
            rule = rule_of(operation, kind, is_custom_call)
            if kind == "eq":
                is_integer = re.search(r"[^f]i\d+>", str(operation.operands[0].type))
                rule = {"kind": "equal"} if is_integer else {"kind": "near", "tolerance": 1e-4}
            self.checks.append(rule)
            if self.expected[-1] is None:  # computed, too: one more result
                self.expected[-1:] = [np.zeros(0, np.float32)] * 2
                self.results.append(operation.operands[1])
                self.checks[-1:] = [{**rule, "other": len(self.results) - 1}, {"kind": "any"}]
            for result in operation.results:
                if self.is_used(result):
                    always = self.ir.Operation.create("stablehlo.constant", results=[result.type], ip=self.ir.InsertionPoint(operation),
                                                      attributes={"value": self.ir.Attribute.parse(f"dense<true> : {result.type}")})
                    result.replace_all_uses_with(always.results[0])
            operation.erase()

    def is_used(self, value):
        return any(True for _ in value.uses)

    def make_arguments(self):
        """Constants that something computes with become arguments, in their order."""
        for one in list(self.block.operations):
            operation = one.operation
            if operation.name == "stablehlo.constant" and operation.results[0] not in self.results:
                if self.is_used(operation.results[0]):
                    if "!quant" in str(operation.results[0].type):
                        continue
                    self.argument(operation.results[0], constant_of(operation))
                operation.erase()
            elif operation.name == "func.call" and operation.attributes["callee"].value in ("inputs", "expected"):
                for value, source in zip(operation.results, self.returned_constants(operation.attributes["callee"].value)):
                    if self.is_used(value) or value in self.results:
                        self.argument(value, constant_of(source))
                operation.erase()

    def argument(self, value, array):
        made = self.block.add_argument(value.type, self.ir.Location.unknown())
        self.results = [made if one == value else one for one in self.results]
        value.replace_all_uses_with(made)
        self.inputs.append(array)

    def finish(self):
        """The signature, and the name main; functions of inputs and expectations go."""
        ir = self.ir
        last = list(self.block.operations)[-1].operation
        if not self.results:  # the case is that it runs
            if not self.inputs:
                self.block.add_argument(ir.RankedTensorType.get([], ir.F32Type.get()), ir.Location.unknown())
                self.inputs.append(np.float32(1))
            self.results, self.expected, self.checks = [self.block.arguments[0]], [self.inputs[0]], [{"kind": "equal"}]
        ir.Operation.create("func.return", operands=self.results, ip=ir.InsertionPoint(last))
        last.erase()
        kind = ir.FunctionType.get([one.type for one in self.block.arguments], [one.type for one in self.results])
        function = self.function
        for name in ("arg_attrs", "res_attrs"):
            if name in function.attributes:
                del function.attributes[name]
        function.attributes["function_type"] = ir.TypeAttr.get(kind)
        for name, other in self.functions.items():
            if name in ("inputs", "expected"):
                other.operation.erase()
        function.attributes["sym_name"] = ir.StringAttr.get("main")
        if "sym_visibility" in function.attributes:
            del function.attributes["sym_visibility"]


def case_of(text, stablehlo):
    """(text of the program, inputs, expected, checks) of one part of a file."""
    context = stablehlo._context()
    ir = stablehlo._mlir("ir")
    with context, ir.Location.unknown():
        try:
            module = ir.Module.parse(with_generic_checks(text))
        except ir.MLIRError as wrong:
            raise NoCase("jaxlib does not read it: " + re.sub(r"\s+", " ", str(wrong))[:300]) from None
        functions = [one for one in module.body.operations if one.operation.name == "func.func"]
        tests = [one for one in functions if one.name.value == "main"] or functions
        if not tests:
            raise NoCase("there is no function")
        function = Function(module, tests[-1], ir)
        if len(function.block.arguments):
            raise NoCase("its function has arguments without values")
        function.find_checks()
        function.make_arguments()
        function.finish()
        return str(module.operation.get_asm()), function.inputs, function.expected, function.checks


def name_in(text):
    found = re.search(r"func\.func (?:public |private )?@(?:main\b)?([\w.]*)", text)
    return found[1] if found and found[1] else "main"


def operator_of(path, is_test_data):
    if not is_test_data:
        return path.stem
    found = PRIMITIVE.match(path.stem)
    return found[1] if found else path.stem.split("_")[0]


def parts_of(folder):
    """(name, operator, text) of everything that is interpreted."""
    places = [folder] if not (folder / "stablehlo").is_dir() else [folder / "stablehlo" / "tests" / "interpret", folder / "stablehlo" / "testdata"]
    for place in places:
        for path in sorted(place.rglob("*.mlir")):
            text = path.read_text()
            if not INTERPRETED.search(text):
                continue
            is_test_data = "testdata" in path.parts
            counts = collections.Counter()
            parts = [part for part in re.split(r"^// -----.*$", text, flags=re.MULTILINE) if "func.func" in part]
            # Some tests have nothing between them.
            parts = [one for part in parts for one in (FUNCTIONS.split(part) if len(FUNCTIONS.findall(part)) > 1 and not CALLS.search(part) else [part])
                     if "func.func" in one]
            for part in parts:
                inner = name_in(part)
                counts[inner] += 1
                number = f".{counts[inner]}" if counts[inner] > 1 else ""
                kind = path.relative_to(place).with_suffix("")
                name = f"{place.name}/{kind}" + ("" if is_test_data and len(parts) == 1 else f"/{inner}{number}")
                yield name, ("quantized " if "quantized" in path.parts else "") + operator_of(path, is_test_data), part, text


def prepare(folder, stablehlo, chosen, add):
    """Calls add(name, operator, text of the program, inputs, expected, checks) for each case. Returns the reasons of those that are none, with counts."""
    left_out = collections.defaultdict(list)
    for name, operator, part, whole in parts_of(pathlib.Path(folder)):
        if not chosen(name, operator):
            continue
        reason = next((why for why, pattern in EXCLUDED.items() if pattern.search(whole if "FileCheck" in pattern.pattern and "FileCheck" in whole else part)), None)
        if reason:
            left_out[reason].append(name)
            continue
        try:
            add(name, operator, *case_of(part, stablehlo))
        except (NoCase, dense_values.NotReadable) as why:
            left_out[str(why)].append(name)
        except Exception as wrong:
            raise RuntimeError(f"{name}: {type(wrong).__name__}: {wrong}") from wrong
    return dict(left_out)



