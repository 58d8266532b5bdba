# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A case in a folder: model.mlir, the program as the compiler reads it, and values.npz: the inputs, and for each result the check that it has to pass.
Needs NumPy and ml_dtypes, and neither JAX nor the compiler, so that cases can be run elsewhere."""
import json

import ml_dtypes
import numpy as np

# A check: {"kind": "equal"}; {"kind": "near", "tolerance": absolute}; {"kind": "ulps", "least": n, "most": n}; {"kind": "close", "rtol": r, "atol": a}. With
# "other": n, the values to compare with are those of result n, of which nothing else is expected: {"kind": "any"}.


def dtype_of(name):
    return np.dtype(getattr(ml_dtypes, name)) if hasattr(ml_dtypes, name) else np.dtype(name)


def as_parts(array):
    """Complex numbers as Heddle takes them: floats with one more dimension, of 2. Other arrays as they are."""
    array = np.asarray(array)
    if array.dtype.kind != "c":
        return array
    return np.stack([array.real, array.imag], -1)


def write(folder, text, case):
    """`case`: name, operator, inputs and expected (lists of arrays), checks (one for each of expected)."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.mlir").write_text(text)
    arrays = [as_parts(array) for array in [*case["inputs"], *case["expected"]]]
    header = {"name": case["name"], "operator": case["operator"], "inputs": len(case["inputs"]), "checks": case["checks"],
              "donated": case.get("donated", []), "types": [array.dtype.name for array in arrays], "shapes": [array.shape for array in arrays]}
    flat = {str(index): np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8) for index, array in enumerate(arrays)}
    np.savez_compressed(folder / "values.npz", header=np.array(json.dumps(header)), **flat)


def read(folder):
    with np.load(folder / "values.npz") as file:
        header = json.loads(str(file["header"]))
        arrays = [np.frombuffer(file[str(index)].tobytes(), dtype_of(name)).reshape(shape)
                  for index, (name, shape) in enumerate(zip(header["types"], header["shapes"]))]
    return {**header, "inputs": arrays[:header["inputs"]], "expected": arrays[header["inputs"]:]}
