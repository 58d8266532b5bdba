# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Networks of transformers and of images through heddle.torch.export: results for several sizes, in a process without PyTorch, against PyTorch's.

    exports.py [NAME ...] [--full] [--static] [--list]

The networks of architectures.py. All extents of inputs are dynamic (torch.export.Dim.AUTO), or those of the first call with --static. Each network runs in a
process of its own, and its module in another one, which may not import torch. Sizes that the exported program refuses are counted. Needs torch and
transformers.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile
import time
import warnings

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "networks"), str(HERE.parent / "bench")]
RUN = """
import pathlib
import sys
import heddle
import numpy as np
folder = pathlib.Path(sys.argv[1])
main = heddle.open(folder / "model.heddle", "cpu").main
for path in sorted(folder.glob("inputs*.npz")):
    with np.load(path) as inputs:
        given = [inputs[name] for name in sorted(inputs.files)]
    try:
        results = main(*given)
    except heddle.InvalidArgumentError as refused:
        if "of the exported program" not in str(refused):
            raise
        continue
    results = [results] if isinstance(results, heddle.Tensor) else list(results)
    np.savez(folder / path.name.replace("inputs", "results"), **{f"r{i:03}": one.numpy() for i, one in enumerate(results)})
assert "torch" not in sys.modules
"""


def child(name, full, static):
    """A line about the network."""
    import architectures
    import export
    import numpy as np
    import torch
    from network import randomize

    import heddle.torch

    torch.manual_seed(1234)
    network = {**export.networks(), **architectures.more_networks()}[name](full)
    network.model.eval()
    randomize(network.model)
    calls = network.calls[:1] if static else network.calls
    inputs = [network.inputs_of(sizes, torch.Generator().manual_seed(7)) for sizes in calls]
    shapes = None if static else tuple({d: torch.export.Dim.AUTO for d in range(one.ndim)} for one in inputs[0])
    takes_all = network.model.forward.__code__.co_flags & 4  # *arguments, which are one argument of dynamic_shapes
    with tempfile.TemporaryDirectory(prefix="heddle-exports-") as temporary:
        folder = pathlib.Path(temporary)
        begin = time.monotonic()
        heddle.torch.export(network.model, tuple(inputs[0]), folder / "model.heddle", dynamic_shapes=(shapes,) if shapes and takes_all else shapes)
        seconds = time.monotonic() - begin
        for i, given in enumerate(inputs):
            np.savez(folder / f"inputs{i}.npz", **{f"i{j:03}": one.numpy() for j, one in enumerate(given)})
        subprocess.run([sys.executable, "-B", "-c", RUN, folder], check=True)
        worst, count = 0.0, 0
        for i, given in enumerate(inputs):
            path = folder / f"results{i}.npz"
            if not path.exists():
                continue
            count += 1
            with torch.no_grad():
                wanted = network.model(*given)
            wanted = [one.double().numpy() for one in (wanted if isinstance(wanted, (tuple, list)) else [wanted]) if torch.is_tensor(one)]
            with np.load(path) as results:
                got = [results[key] for key in sorted(results.files)]
            for a, b in zip(got, wanted, strict=True):
                error = np.abs(a - b).max() / max(np.abs(b).max(), 1e-30)
                worst = max(worst, error if error == error else float("inf"))
    result = "right" if worst < 1e-5 and count else "WRONG" if count else "no size was possible"
    return f"{name}: {result}, largest error {worst:.1e} of the largest number, {count} of {len(calls)} sizes, exported in {seconds:.0f} s"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--full", action="store_true", help="networks of their usual sizes")
    parser.add_argument("--static", action="store_true", help="the sizes of one call")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    import architectures

    names = arguments.names or architectures.LANGUAGE + architectures.IMAGES
    if arguments.list:
        print("\n".join(names))
        return 0
    if arguments.child:
        warnings.simplefilter("ignore")
        try:
            line = child(names[0], arguments.full, arguments.static)
        except Exception as wrong:  # of any kind
            print(f"{names[0]}: error: " + "; ".join(line.strip() for line in str(wrong).splitlines() if line.strip())[:600])
            return 1
        print(line)
        return 0 if ": right" in line else 1
    given = [one for one in sys.argv[1:] if one not in arguments.names]
    return max(subprocess.run([sys.executable, "-B", __file__, name, "--child", *given], check=False).returncode for name in names)


if __name__ == "__main__":
    sys.exit(main())
