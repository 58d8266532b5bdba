# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Copies between two devices of one driver, by each p2p of [[link]]: the same bits as on one device, and how fast they are.

usage: tests/gpu/peers.py [--driver ID] [--option TEXT] [--module FILE]
       tests/gpu/peers.py --make FILE

The module has two slots; its nodes stand on them in turns, so that every one of them hands 64 MiB over. --make compiles it:
tests/gpu/pack takes it along. With fewer than two devices there is nothing to measure: it says so, and ends with 77.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "bench"))
import heddle_ctypes  # noqa: E402

ELEMENTS = 16 << 20
NODES = 17  # the odd ones are on @far, the first and the last are not: a copy between each and the next
ROUNDS = 10


def make(path):
    import onnx
    from onnx import TensorProto, helper
    nodes = [helper.make_node("Add", [f"v{i}", f"c{i}"], [f"v{i + 1}"], name=f"{'far' if i % 2 else 'near'}{i}") for i in range(NODES)]
    constants = [helper.make_tensor(f"c{i}", TensorProto.FLOAT, [1], [0.37 * (i + 1)]) for i in range(NODES)]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [ELEMENTS]) for name in ("v0", f"v{NODES}")]
    model = helper.make_model(helper.make_graph(nodes, "peers", values[:1], values[1:], constants), opset_imports=[helper.make_opsetid("", 17)])
    places = [part for i in range(1, NODES, 2) for part in ("--place", f"far{i}=@far")]
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(model, f"{folder}/peers.onnx")
        subprocess.run([heddle_ctypes.command_path(), "compile", f"{folder}/peers.onnx", "-o", path, "--target", "cpu,cuda", *places], check=True)


def config(arguments, p2p):
    link = f'[[link]]\nbetween = ["one", "two"]\np2p = "{p2p}"\n' if p2p else ""
    option = f'[driver."{arguments.driver}"]\n{arguments.option}\n' if arguments.option else ""
    devices = "".join(f'[device.{name}]\ndriver = "{arguments.driver}"\nselect = {{ ordinal = {i} }}\n' for i, name in enumerate(("one", "two")))
    return f'version = 1\n[log]\nlevel = "error"\n{option}{devices}{link}'


def measure(arguments, p2p, far, values):
    """(result, links of the route, statistics, seconds of a call)."""
    instance = heddle_ctypes.Runtime(config(arguments, p2p)).open(arguments.module).instance({"": "one", "@far": far})
    call, results = instance.function().prepare(values)
    times = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return results[0].numpy(), json.loads(instance.report("route"))["links"], json.loads(instance.report("statistics")), statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--driver", default="heddle.cuda")
    parser.add_argument("--option", default="", help="lines of the driver's table, such as device_count = 2")
    parser.add_argument("--module", type=pathlib.Path, default=heddle_ctypes.library_path().parent.parent / "tests" / "peers.heddle")
    parser.add_argument("--make", type=pathlib.Path)
    arguments = parser.parse_args()
    if arguments.make:
        make(arguments.make)
        return 0
    options = f'[driver."{arguments.driver}"]\n{arguments.option}\n' if arguments.option else ""
    listed = json.loads(subprocess.run([heddle_ctypes.command_path(), "devices", "--format", "json"], check=True, capture_output=True, text=True,
                                       env={**os.environ, "HEDDLE_SET": options}).stdout)["devices"]
    count = sum(device["driver"] == arguments.driver for device in listed)
    if count < 2:
        print(f"SKIP: copies between devices need two of {arguments.driver}, and there is {count}")
        return 77
    values = np.random.default_rng(11).standard_normal(ELEMENTS, dtype=np.float32)
    expected, _, _, alone = measure(arguments, "", "one", values)
    print(f"one device: {alone * 1e3:.2f} ms")
    right = True
    for p2p in ("auto", "require", "off"):
        try:
            result, links, counts, seconds = measure(arguments, p2p, "two", values)
        except RuntimeError as failure:
            print(f"p2p = \"{p2p}\": {failure}")
            # Two devices that do not reach each other: "require" has to say so, and the others work.
            right = right and p2p == "require" and "straight" in str(failure)
            continue
        copies = counts["device_crossings"] // (ROUNDS + 1)
        straight = counts["peer_copies"] // (ROUNDS + 1)
        same = np.array_equal(result, expected)
        right = right and same and copies == NODES - 1 and straight == (0 if p2p == "off" else copies if links[0]["copies"] == "direct" else 0)
        moved = copies * values.nbytes / 1e9
        rate = f"{moved / (seconds - alone):.1f} GB/s" if seconds > alone else "too fast to tell"
        print(f"p2p = \"{p2p}\": {'the same bits' if same else 'OTHER BITS'}, {copies} copies of {values.nbytes >> 20} MiB, {straight} of them straight, "
              f"{seconds * 1e3:.2f} ms; between the devices, without what one device takes, {rate}; in all {moved / seconds:.1f} GB/s")
        for link in links:
            print(f"  {link['from']} to {link['to']}: {link['copies']}, {link['reason']}")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
