# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How long torch.compile takes for BERT: the first call with empty caches, and that of another process which finds the caches. Heddle beside Inductor.

    torch_compile_time.py [--layers 12] [--training] [--rounds 3] [--device cpu] [--no-traces]

Each measurement is a process of its own; what it takes to import PyTorch and to make the model is not in it. Seconds of the clock, and of processors,
those of child processes included, which say more on a busy machine. Medians. Needs torch and transformers.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import turns

CACHES = ("HEDDLE_TORCH_CACHE", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")


def child(arguments):
    import torch
    import transformers

    import heddle.torch

    torch.manual_seed(0)
    torch.set_num_threads(turns.cores())
    config = transformers.BertConfig(num_hidden_layers=arguments.layers, use_cache=False)
    model = transformers.BertModel(config).eval().to(arguments.device)
    ids = torch.randint(0, config.vocab_size, (2, 128)).to(arguments.device)
    mask = torch.ones_like(ids)
    compiled = torch.compile(model, backend=heddle.torch.backend if arguments.child == "heddle" else arguments.child)

    def processors():
        times = os.times()
        return times.user + times.system + times.children_user + times.children_system

    begin, used = time.perf_counter(), processors()
    with torch.set_grad_enabled(arguments.training):
        result = compiled(input_ids=ids, attention_mask=mask).last_hidden_state
        if arguments.training:
            result.square().mean().backward()
    if arguments.device != "cpu":
        torch.cuda.synchronize()
    print("FOUND " + json.dumps([time.perf_counter() - begin, processors() - used, float(result.detach().float().abs().sum())]))


def measured(name, folder, given):
    environment = {**os.environ, **{key: os.path.join(folder, key) for key in CACHES}, "HEDDLE_TORCH_KEEP_TRACES": str(int("--no-traces" not in given))}
    done = subprocess.run([sys.executable, "-B", __file__, "--child", name, *given], capture_output=True, text=True, check=False, env=environment)
    for line in done.stdout.splitlines():
        if line.startswith("FOUND "):
            return json.loads(line[6:])
    raise SystemExit(f"{name}: " + done.stderr[-2000:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--training", action="store_true", help="the backward pass, too")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--no-traces", action="store_true", help="with HEDDLE_TORCH_KEEP_TRACES=0: Dynamo traces in each process")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments)
        return 0
    found = {}
    for index in range(arguments.rounds):
        names = ["heddle", "inductor"]
        for name in names[index % 2:] + names[:index % 2]:
            with tempfile.TemporaryDirectory(prefix="compile-time-") as folder:
                for kind in ("cold", "warm"):
                    found.setdefault((name, kind), []).append(measured(name, folder, sys.argv[1:]))
                    print(name, kind, *(f"{one:.2f}" for one in found[name, kind][-1]), file=sys.stderr, flush=True)
    rows = []
    for kind in ("cold", "warm"):
        for i, unit in enumerate(("s of the clock", "s of processors")):
            ours, theirs = (statistics.median(one[i] for one in found[name, kind]) for name in ("heddle", "inductor"))
            rows.append([f"{kind}, {unit}", f"{ours:.2f}", f"{theirs:.2f}", f"{ours / theirs:.2f}"])
    print(f"{turns.machine()}\n\n{turns.table(['first call', 'Heddle', 'Inductor', 'Heddle / Inductor'], rows)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
