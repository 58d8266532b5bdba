# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints the opsets that gave each operator of ONNX's default domain its meaning, as C++: run by the build."""
import collections

import onnx.defs

versions = collections.defaultdict(set)
for schema in onnx.defs.get_all_schemas_with_history():
    if schema.domain == "":
        versions[schema.name].add(schema.since_version)
for name, since in sorted(versions.items()):
    print(f'{{"{name}", {{{", ".join(map(str, sorted(since)))}}}}},')
