# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints the bodies of the functions among ONNX's standard operators, as C++: run by the build. Each is a FunctionProto with the operator's default
attributes. Operators whose body depends on the types of a node are not among them: the compiler translates these itself. LinearAttention is a loop, so it
has bodies of this file: one for each rule, with a past state and without."""
import onnx
import onnx.defs
import onnx.parser


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
            yield schema.name, schema.since_version, opset, "", body.SerializeToString(deterministic=True)


def linear_attention(rule, has_past):
    """The state of each head, [keys, values], is f32, and goes from position to position."""
    is_gated, is_delta = "gated" in rule, "delta" in rule
    scanned = ["q", "k", "v"] + is_gated * ["decay"] + is_delta * ["beta"]
    split = "".join(f"{name}_split = Reshape ({source}, {shape})  {name}_steps = Transpose <perm = [1, 0, 2, 3]> ({name}_split)\n" for name, source, shape in [
        ("q", "query", "of_query"), ("k", "key", "of_key"), ("v", "value", "of_key"), ("decay", "decay", "of_key"), ("beta", "beta", "of_beta")] if name in scanned)
    inputs = ", ".join(f"{name}_step" for name in scanned)
    step = "".join(f"{name}_now = Cast <to = 1> ({name}_step)\n" for name in scanned)
    step += "factor = Exp (decay_now)  factors = Unsqueeze (factor, last)  kept = Mul (state, factors)\n" if is_gated else "kept = Identity (state)\n"
    step += "column = Unsqueeze (k_now, last)\n"
    step += """turned = Transpose <perm = [0, 1, 3, 2]> (kept)  found = MatMul (turned, column)  row = Squeeze (found, last)
      differs = Sub (v_now, row)  written = Mul (beta_now, differs)""" if is_delta else "written = Identity (v_now)"
    return f"""<domain: "", opset_import: ["" : 27]>
    LinearAttention <q_num_heads, kv_num_heads, scale: float = 0.0> (query, key, value, past_state, decay, beta) => (output, present_state) {{
      first = Constant <value = int64[1] {{0}}> ()
      one = Constant <value = int64[1] {{1}}> ()
      two = Constant <value = int64[1] {{2}}> ()
      last = Constant <value = int64[1] {{-1}}> ()
      before_last = Constant <value = int64[1] {{-2}}> ()
      of_q = Constant <value_int: int = @q_num_heads> ()
      of_k = Constant <value_int: int = @kv_num_heads> ()
      q_heads = Unsqueeze (of_q, first)
      k_heads = Unsqueeze (of_k, first)
      group = Div (q_heads, k_heads)
      batch = Shape <start = 0, end = 1> (query)
      length = Shape <start = 1, end = 2> (query)
      q_hidden = Shape <start = 2, end = 3> (query)
      v_hidden = Shape <start = 2, end = 3> (value)
      keys = Div (q_hidden, q_heads)
      values = Div (v_hidden, k_heads)
      of_query = Concat <axis = 0> (batch, length, q_heads, last)
      of_key = Concat <axis = 0> (batch, length, k_heads, last)
      of_beta = Concat <axis = 0> (batch, length, last, one)
      {split}
      of_state = Concat <axis = 0> (batch, k_heads, keys, values)
      grouped = Concat <axis = 0> (batch, k_heads, group, keys, values)
      of_all = Concat <axis = 0> (batch, q_heads, keys, values)
      start = {"Cast <to = 1> (past_state)" if has_past else "ConstantOfShape (of_state)"}
      zero = Constant <value = float {{0.0}}> ()
      given = Constant <value_float: float = @scale> ()
      no_scale = Equal (given, zero)
      key_count = Squeeze (keys, first)
      key_float = Cast <to = 1> (key_count)
      root = Sqrt (key_float)
      usual = Reciprocal (root)
      scale = Where (no_scale, usual, given)
      final, steps = Scan <num_scan_inputs = {len(scanned)}, body = step (state, {inputs}) => (next, result) {{
        {step}
        line = Unsqueeze (written, before_last)
        outer = MatMul (column, line)
        next = Add (kept, outer)
        parted = Unsqueeze (next, two)
        repeated = Expand (parted, grouped)
        for_all = Reshape (repeated, of_all)
        asked = Unsqueeze (q_now, before_last)
        answers = MatMul (asked, for_all)
        answer = Squeeze (answers, before_last)
        scaled = Mul (answer, scale)
        result = CastLike (scaled, q_step)
      }}> (start, {", ".join(f"{name}_steps" for name in scanned)})
      together = Transpose <perm = [1, 0, 2, 3]> (steps)
      of_output = Concat <axis = 0> (batch, length, last)
      output = Reshape (together, of_output)
      present_state = CastLike (final, {"past_state" if has_past else "query"})
    }}"""


def own_bodies():
    for rule in ("linear", "gated", "delta", "gated_delta"):
        for past in ("", "+past"):
            body = onnx.parser.parse_function(linear_attention(rule, bool(past)))
            yield "LinearAttention", 27, 27, rule + past, body.SerializeToString(deterministic=True)


for name, since, opset, variant, data in sorted([*bodies(), *own_bodies()]):
    print(f'{{"{name}", {since}, {opset}, "{variant}", {{{text(data)}, {len(data)}}}}},')
