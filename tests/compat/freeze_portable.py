#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the portable code of models for tests/compat/portable/N, when version N of the format is frozen.

    HEDDLE_BIN=build/release/bin tests/compat/freeze_portable.py tests/compat/portable/N

Compiles these cases of ONNX's backend tests and the network of digits with `heddle compile --target portable`, and writes their kernels as two images; a kernel's name begins with that of its
case. That these models are right when they are interpreted is shown by onnx_cases.py with --target portable --device sample:0, and by e2e_portable_test. Files
that are there are not written again.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "onnx_cases"))
import cases

# Together, their kernels have nodes of all kinds, as the compiler writes them.
CASES = (
    "ai_onnx_ml_tree_ensemble_single_tree", "argmax_keepdims_example", "averagepool_2d_pads_count_include_pad", "basic_conv_with_padding", "bitshift_left_uint16", "cast_FLOAT16_to_FLOAT",
    "concat_2d_axis_0", "constant_pad", "convtranspose", "cumsum_1d_reverse", "einsum_batch_matmul", "gather_1", "gathernd_example_int32", "lrn", "matmulinteger", "maxpool_2d_pads",
    "mod_mixed_sign_int8", "nonmaxsuppression_limit_output_size", "pow", "quantizelinear", "reduce_l2_keep_dims_example", "resize_upsample_sizes_nearest", "scatter_elements_with_axis",
    "scatternd_add", "softmax_axis_1", "top_k", "tfidfvectorizer_tf_only_bigrams_skip0", "where_example",
)
MAGIC = b"HDLPORT\0"


def number(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def text(value):
    return number(len(value)) + value


class Image:
    """The frame of an image, which is the same in every version."""

    def __init__(self, data):
        assert data.startswith(MAGIC), data[:16]
        self.data, self.at = data, len(MAGIC)
        self.version = self.number()
        self.kernels = [(self.text(), self.text()) for _ in range(self.number())]
        assert self.at == len(data)

    def number(self):
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def text(self):
        size = self.number()
        self.at += size
        return self.data[self.at - size:self.at]


def write(path, version, kernels):
    if path.exists():
        print(f"{path} is there")
        return
    path.write_bytes(MAGIC + number(version) + number(len(kernels)) + b"".join(text(name) + text(code) for name, code in kernels))
    print(f"{path}: {len(kernels)} kernels, {path.stat().st_size} bytes")


def kernels_of(model):
    with tempfile.TemporaryDirectory() as folder:
        code = pathlib.Path(folder, "code")
        subprocess.run([pathlib.Path(os.environ["HEDDLE_BIN"], "heddle-compile"), model, "-o", pathlib.Path(folder, "m.heddle"), "--target", "portable", "--dump-code", code], check=True)
        return [Image(path.read_bytes()) for path in sorted(code.iterdir()) if path.suffix != ".txt"]


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    folders, kernels, seen = cases.case_folders(cases.data_folder()), [], set()
    for name in CASES:
        for image in kernels_of(folders[name] / "model.onnx"):
            assert image.version == int(out.name), f"{name} is of version {image.version}"
            for kernel, code in image.kernels:
                if code not in seen:
                    seen.add(code)
                    kernels.append((name.encode() + b"/" + kernel, code))
    write(out / "onnx_cases.port", int(out.name), kernels)
    (digits,) = kernels_of(ROOT / "tests" / "models" / "digits" / "digits.onnx")
    write(out / "digits.port", digits.version, digits.kernels)


if __name__ == "__main__":
    main()
