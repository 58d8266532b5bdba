# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints what the schemas of operators say, as C++: of ONNX's own domains, run by the build; with --microsoft, of the operators of com.microsoft that
are named, as ONNX Runtime has them, for onnx_microsoft_schemas.inc, which a test compares with this."""
import sys
import textwrap

import onnx.defs


def lines(schemas):
    for one in sorted(schemas, key=lambda one: (one.domain, one.name, one.since_version)):
        attributes = ", ".join(f'{{"{name}", "{attribute.type.name}", {str(attribute.required).lower()}}}' for name, attribute in sorted(one.attributes.items()))
        yield (f'{{"{one.domain}", "{one.name}", {one.since_version}, {str(one.deprecated).lower()}, {one.min_input}, {one.max_input}, {one.max_output}, '
               f"{{{attributes}}}}},")


def main(arguments):
    if arguments[:1] != ["--microsoft"]:
        return lines(onnx.defs.get_all_schemas_with_history())
    from onnxruntime.capi import onnxruntime_pybind11_state as runtime
    return lines(one for one in runtime.get_all_operator_schema() if one.domain == "com.microsoft" and one.name in arguments[1:])


if __name__ == "__main__":
    for line in main(sys.argv[1:]):
        print("\n".join(textwrap.wrap(line, 148, subsequent_indent="    ", break_long_words=False)))
