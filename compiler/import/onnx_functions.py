# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints the bodies of the functions among ONNX's standard operators, as C++: run by the build. Each is a FunctionProto with the operator's default
attributes. Operators whose body depends on the types of a node are not among them: the compiler translates these itself."""
import onnx
import onnx.defs


def text(data):
    """A string literal; short pieces, because three octal digits end an escape and compilers limit the length of a literal."""
    pieces = (data[i:i + 64] for i in range(0, len(data), 64))
    return " ".join('"' + "".join(chr(b) if 0x20 <= b < 0x7f and b not in b'"\\?' else f"\\{b:03o}" for b in piece) + '"' for piece in pieces)


def bodies():
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain != "" or not schema.has_function or schema.deprecated:
            continue
        for opset in schema.function_opset_versions:
            body = onnx.FunctionProto()
            body.ParseFromString(schema.get_function_with_opset_version(opset))
            body.ClearField("doc_string")
            given = {attribute.name for attribute in body.attribute_proto}
            for name in sorted(set(body.attribute) - given):
                default = schema.attributes[name].default_value
                if default.type != onnx.AttributeProto.UNDEFINED:
                    body.attribute_proto.append(default)
            known = [name for name in body.attribute if name not in {attribute.name for attribute in body.attribute_proto}]
            del body.attribute[:]
            body.attribute.extend(known)
            yield schema.name, schema.since_version, opset, body.SerializeToString(deterministic=True)


for name, since, opset, data in sorted(bodies()):
    print(f'{{"{name}", {since}, {opset}, {{{text(data)}, {len(data)}}}}},')
