# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What heddle.torch costs where it is not used: processor time of compiling a small network with another backend and of calling it, in a process that
has imported heddle.torch and its backend, but compiled nothing with it, against one that has not. Blocks of the two processes take turns.

    torch_off.py [--backend aot_eager] [--rounds 10]

Needs PyTorch and PYTHONPATH=build/release/python.
"""
import argparse
import statistics
import subprocess
import sys
import time

CALLS = 2000


def child(backend):
    import torch
    if "--imported" in sys.argv:
        import heddle.torch
        heddle.torch.backend  # noqa: B018  it is loaded when it is asked for
    torch.set_num_threads(1)
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 16))
    x = torch.randn(1, 16)

    def compiled():
        torch.compiler.reset()
        function = torch.compile(network, backend=backend)
        function(x)
        return function

    with torch.no_grad():
        compiled()  # what is imported, and made once
        for _ in sys.stdin:
            begin = time.process_time()
            function = compiled()
            compiling = time.process_time() - begin
            begin = time.process_time()
            for _ in range(CALLS):
                function(x)
            print(compiling * 1e3, (time.process_time() - begin) / CALLS * 1e6, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="aot_eager", help="a name that torch.compile takes")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--imported", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(given.backend)
        return
    command = [sys.executable, "-B", __file__, "--child", "--backend", given.backend]
    children = [subprocess.Popen([*command, *more], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for more in ([], ["--imported"])]
    found = []
    for number in range(given.rounds + 1):
        made = [None, None]
        for i in (0, 1) if number % 2 == 0 else (1, 0):
            children[i].stdin.write("go\n")
            children[i].stdin.flush()
            made[i] = [float(one) for one in children[i].stdout.readline().split()]
            if not made[i]:
                children[1 - i].kill()
                sys.exit("torch_off.py: a child process ended; its error is above")
        found.append(made)
    for one in children:
        one.stdin.close()
        one.wait()
    for i, what in enumerate(("ms to compile", "us a call")):
        ratios = sorted(100 * (imported[i] / without[i] - 1) for without, imported in found[1:])
        print(f"{given.backend}, {what}: {statistics.median(one[0][i] for one in found[1:]):.2f} without heddle.torch; with it imported "
              f"{statistics.median(ratios):+.2f} % ({ratios[len(ratios) // 4]:+.2f} to {ratios[-1 - len(ratios) // 4]:+.2f})")


if __name__ == "__main__":
    main()
