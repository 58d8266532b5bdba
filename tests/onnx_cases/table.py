# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The results of all cases as one page: a row per operator, and the reasons of failures with the number of cases that have them."""
import collections
import re

from cases import EXPANDED

KINDS = {"operator": "operators that are not supported", "type": "element types that are not supported", "form": "forms of operators",
         "input": "inputs of models", "output": "outputs of models", "opset": "opsets", "compiler": "other errors of the compiler", "run": "errors of calls",
         "crash": "crashes", "time": "time limits", "shape": "results of another shape", "values": "results with other values"}


def kind_of(reason):
    kind = re.match(r"\w+", reason)[0]
    return kind if kind in KINDS else "compiler"


def share(part, whole):
    return f"{100 * part / whole:.1f} %" if whole else "-"


def totals(results):
    """(passed, all, counts of nodes in cases that passed)"""
    passed = [one for one in results if one["verdict"] == "passed"]
    nodes = collections.Counter()
    for one in passed:
        nodes.update(one["nodes"] or {})
    return len(passed), len(results), nodes


def summary(results):
    passed, count, nodes = totals(results)
    computed = nodes["kernels"] + nodes["host"]
    return (f"{passed} of {count} cases pass ({share(passed, count)}). Of the {sum(nodes.values())} nodes of these, {nodes['kernels']} run in generated kernels "
            f"({share(nodes['kernels'], computed)} of those that compute something when the model runs), {nodes['host']} in operations called on the host, and "
            f"{nodes['neither']} are views or known when the model is compiled.")


def summary_of_stated(results):
    stated = [one for one in results if one["verdict"] == "passed" and one.get("stated")]
    return (f" {len(stated)} of the cases that pass have sequences or optionals, and are compiled for the number of elements that theirs have "
            "(`heddle compile --specialize`)." if stated else "")


def reasons_of(results):
    """Reason to (cases with it, cases with no other reason, a case)."""
    found = {}
    for one in results:
        for reason in one["reasons"]:
            count, alone, example = found.get(reason, (0, 0, one["name"]))
            found[reason] = (count + 1, alone + (len(one["reasons"]) == 1), example)
    return found


def cell(text):
    return text.replace("|", "\\|").replace("\n", " ")


def page(results, title):
    lines = [f"# {title}", "", summary(results) + summary_of_stated(results), "", "## Reasons", "",
             "A case may have several reasons; *alone* counts the cases with no other one.", ""]
    found = reasons_of(results)
    for kind, what in KINDS.items():
        rows = sorted(((reason, counts) for reason, counts in found.items() if kind_of(reason) == kind), key=lambda row: (-row[1][0], row[0]))
        if not rows:
            continue
        cases = sum(any(kind_of(reason) == kind for reason in one["reasons"]) for one in results)
        lines += [f"### {what[0].upper()}{what[1:]}: {cases} cases", "", "| reason | cases | alone | such as |", "| --- | ---: | ---: | --- |"]
        lines += [f"| {cell(reason)} | {count} | {alone} | {example} |" for reason, (count, alone, example) in rows] + [""]
    lines += ["## Operators", "", "*Bodies* are the cases in which the operator is written as its function's body. Nodes are those of the cases that pass.", "",
              "| operator | passed | of | bodies passed | of | nodes in kernels | on the host | neither |", "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
    by_operator = collections.defaultdict(list)
    for one in results:
        by_operator[one["operator"]].append(one)
    for operator, ones in sorted(by_operator.items()):
        own = totals([one for one in ones if not EXPANDED.search(one["name"])])
        bodies = totals([one for one in ones if EXPANDED.search(one["name"])])
        nodes = own[2] + bodies[2]
        lines.append(f"| {cell(operator)} | {own[0]} | {own[1]} | {bodies[0]} | {bodies[1]} | {nodes['kernels']} | {nodes['host']} | {nodes['neither']} |")
    lines += ["", "## Failures", "", "| case | operator | message |", "| --- | --- | --- |"]
    lines += [f"| {one['name']} | {cell(one['operator'])} | {cell(one['message'] or ', '.join(one['reasons']))} |" for one in results if one["verdict"] != "passed"]
    return "\n".join(lines) + "\n"
