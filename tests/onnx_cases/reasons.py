# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The classes of reasons why a case fails, found from the compiler's or the runtime's message."""
import re

OPERATOR = re.compile(r"operator ([\w.]+) \(opset \d+\)(?! *:)")
ONE_OPERATOR = re.compile(r"\(operator ([\w.]+), opset \d+\) failed: operator is not supported")
TYPE = re.compile(r"element type ([\w]+) \(opset \d+\)")
ONE_TYPE = re.compile(r"element type ['\"]?([\w]+)['\"]? ?(?:of [^;]*)?is not supported", re.IGNORECASE)
FORM = re.compile(r"operator ([\w.]+) \(opset \d+\): (.*?), in \d+ ", re.DOTALL)
ONE_FORM = re.compile(r"node '.*?' \(operator ([\w.]+), opset \d+\) failed: (.*)", re.DOTALL)
INPUT = re.compile(r"importing (input|output) '.*?' failed: (.*)", re.DOTALL)


def general(cause):
    """A cause without the names and numbers of this case, so that equal ones are counted together."""
    cause = re.sub(r" \((the model's only node|\d+ of the model's \d+ nodes)\)", "", cause.split("; ")[0])
    cause = re.sub(r"'[^']*'", "'..'", cause)
    cause = re.sub(r"tensor<[^>]*>|\b(?:f|i|u|bf)\d+\[[^\]]*\]", "..", cause)
    cause = re.sub(r"(?<!input )(?<!output )-?\b\d+(\.\d+)?(e[-+]?\d+)?\b", "N", cause)
    return re.sub(r"N(, ?N)+", "N", cause).strip().rstrip(".,")[:160]


def of_compiler(message):
    """Reasons of a failed compile, such as "operator Loop", "type float4e2m1" or "form Reshape: ..."."""
    found = [f"operator {name}" for name in ONE_OPERATOR.findall(message)]
    found += [f"type {name}" for name in ONE_TYPE.findall(message)]
    if " unsupported features: " in message:
        listed = message.split(" unsupported features: ", 1)[1]
        found += [f"operator {name}" for name in OPERATOR.findall(re.sub(r"first [^;]*", "", listed))]
        found += [f"type {name}" for name in TYPE.findall(listed)]
        found += [f"form {name}: {general(cause)}" for name, cause in FORM.findall(listed)]
    if not found and (form := ONE_FORM.search(message)):
        found = [f"form {form[1]}: {general(form[2])}"]
    if not found and (form := INPUT.search(message)):
        found = [f"{form[1]} {general(form[2])}"]
    if not found and (opset := re.search(r"failed: opset (\d+) is outside", message)):
        found = [f"opset {opset[1]}"]
    return list(dict.fromkeys(found)) or [f"compiler: {general(message)}"]
