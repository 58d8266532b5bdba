# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Shows that the stand-in finds faults of a driver: plants them in a copy of heddle.level_zero and of the stream driver below it, and runs the conformance
kit on the stand-in against each one until a case fails that passes without it.

    planted_faults.py [--build FOLDER [--only N ...] [--seeds N]]

Without --build it only says whether the table below still fits the sources. FOLDER is for the copy and its build, which is made once: HEDDLE_PLANTED says
which fault a process has. The stand-in is that of this tree's build. Exits with 1 if a fault is not found.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import time
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "random_graphs"))
import planted_faults as planting  # noqa: E402

HEADER = pathlib.Path("sdk/cpp/heddle/sdk/planted.h")
STREAM = "plugins/level_zero/command_stream.cpp"
BACKEND = "plugins/level_zero/backend.cpp"
CODE = "plugins/level_zero/code.cpp"


class Fault(NamedTuple):
    """`right` is an expression that is in the file once, `wrong` one of the same type."""
    what: str
    file: str
    right: str
    wrong: str
    cases: str  # the kit's --filter
    options: tuple = ()  # of the kit
    settings: tuple = ()  # of the stand-in


FAULTS = [
    Fault("no barrier is between two commands of a stream", STREAM, "!is_behind_command_", "true", "dispatch.,transfer."),
    Fault("the signal at the end does not wait for what precedes it", STREAM,
          "api_.zeCommandListAppendBarrier(list_, signal->event(), 0, nullptr)", "api_.zeCommandListAppendMemoryCopy(list_, this, this, 0, signal->event(), 0, nullptr)",
          "dispatch.,transfer."),
    Fault("a stream does not wait for another one", STREAM, "api_.zeCommandListAppendBarrier(list_, nullptr, 1, &event)",
          "(static_cast<void>(event), ZE_RESULT_SUCCESS)", "dispatch.,timeline.,transfer."),
    Fault("a command list is used again before the device has run it", STREAM, "used_[later].end->query() == ZE_RESULT_SUCCESS", "true",
          "dispatch.,transfer.", ("--option", "immediate_lists=false")),
    Fault("a fill has as many bytes as units", STREAM, "count * unit", "count * (unit - unit + 1)", "transfer."),
    Fault("completion is announced before the event is signalled", BACKEND, "signal.query()", "ZE_RESULT_SUCCESS",
          "dispatch.,transfer."),
    Fault("rows of a copy are read with the pitch of the target", BACKEND, "static_cast<uint32_t>(copy.from_stride)",
          "static_cast<uint32_t>(copy.to_stride)", "transfer."),
    Fault("pinned memory of a transfer is used again before the transfer has ended", "sdk/cpp/stream/staging.cpp", "current_ && current_->live == 0",
          "current_ != nullptr", "transfer.,concurrency."),
    Fault("a block of memory is smaller than the buffer", "plugins/level_zero/memory_pool.cpp", "(bytes + kUnit - 1) / kUnit * kUnit",
          "bytes / kUnit * kUnit + 1", "buffer.,transfer."),
    Fault("every argument of a kernel has the value of the first", CODE, "packed + argument.at", "packed + arguments_[0].at", "dispatch."),
    Fault("a workgroup has one thread", CODE, "entry.block[0], entry.block[1], entry.block[2]", "entry.block[0] - entry.block[0] + 1, 1, 1",
          "dispatch."),
    Fault("the grid's second extent is its first", CODE, "{grid[0], grid[1], grid[2]}", "{grid[0], grid[0], grid[2]}", "dispatch."),
    Fault("memory of another device is accessed that cannot be", BACKEND, "other.device == facts.place.device", "true",  "transfer.,device.", (),
          ("HEDDLE_ZE_DEVICES=2", "HEDDLE_ZE_PEERS=0")),
    Fault("a block is given back to the system that the pool keeps", "plugins/level_zero/memory_pool.cpp", "freed.bytes <= retain_bytes_",
          "(context_->api.zeMemFree(context_->handle, reinterpret_cast<void*>(block)), freed.bytes <= retain_bytes_)", "buffer.,transfer."),
    Fault("a replay has the bindings of the recording", "sdk/cpp/stream/graph.cpp", "recording->list.ops[i].kind != Op::Kind::kLaunch", "true",
          "recording."),
    Fault("a command list is used again when its own signal is seen", STREAM, "queue_ ? 1 : 0", "0", "dispatch.,transfer.",
          ("--option", "immediate_lists=false")),
]


def sources():
    """The text of each file that has faults, with all of them."""
    texts = {}
    for number, fault in enumerate(FAULTS, 1):
        path = pathlib.Path(fault.file)
        text = texts.get(path) or '#include "heddle/sdk/planted.h"\n' + (ROOT / path).read_text()
        found = text.count(fault.right)
        if found != 1:
            sys.exit(f"planted_faults.py: fault {number} ({fault.what}) is planted where {fault.file} has `{fault.right}`, which it has {found} times; 1 was "
                     "expected. Mend the table")
        # Lists of expressions have no value of their own, so each expression is chosen.
        listed = ", " in fault.right and "(" not in fault.right
        if listed:
            rights, wrongs = (part.strip("{}").split(", ") for part in (fault.right, fault.wrong))
            chosen = ", ".join(f"(heddle::planted({number}) ? ({wrong}) : ({right}))" for right, wrong in zip(rights, wrongs))
            chosen = "{" + chosen + "}" if fault.right.startswith("{") else chosen
        else:
            chosen = f"(heddle::planted({number}) ? ({fault.wrong}) : ({fault.right}))"
        texts[path] = text.replace(fault.right, chosen)
    return texts


def run_kit(folder, number, fault, seed):
    """{case: outcome} of the cases of a fault's filter, with the fault or, if the number is 0, without."""
    kit = folder / "bin" / "heddle-conformance"
    command = [ROOT / "tests" / "level_zero" / "stand_in", f"HEDDLE_ZE_SEED={seed}", f"HEDDLE_PLANTED={number}", *fault.settings, kit, "--plugin",
               folder / "lib" / "heddle" / "plugins.d" / "heddle.level_zero.toml", "--json", "--jobs", str(os.cpu_count()), "--time-limit", "20",
               "--filter", fault.cases, *fault.options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        sys.exit(f"planted_faults.py: the kit ended with {done.returncode}: {done.stderr[-2000:]}")
    return {case["name"]: case for case in json.loads(done.stdout)["cases"]}


def check(folder, number, fault, seeds):
    """(verdict, what the first failed case says)."""
    for seed in range(1, seeds + 1):
        cases = run_kit(folder, number, fault, seed)
        failed = [case for case in cases.values() if case["outcome"] == "failed"]
        if failed:
            without = run_kit(folder, 0, fault, seed)
            wrong = [name for name, case in without.items() if case["outcome"] == "failed"]
            if wrong:
                return f"NOT FOUND: {wrong[0]} fails without it", ""
            return f"found by seed {seed}: {len(failed)} of {len(cases)} cases, such as {failed[0]['name']}", " ".join(failed[0]["texts"])
    return "NOT FOUND", ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, metavar="FOLDER", help="for the copy of the tree and its build")
    parser.add_argument("--only", type=int, nargs="+", metavar="N", choices=range(1, len(FAULTS) + 1), help="these faults")
    parser.add_argument("--seeds", type=int, default=3, help="of the stand-in, at most")
    parser.add_argument("--verbose", action="store_true", help="also print what a failed case says")
    arguments = parser.parse_args()
    texts = sources()
    if not arguments.build:
        print(f"all {len(FAULTS)} faults fit the sources")
        return 0
    folder = arguments.build.resolve()
    planting.HEADER, planting.TARGETS = HEADER, ["heddle_level_zero", "heddle-conformance", "heddle_probe"]
    planting.copy_tree(folder, texts)
    build = planting.build(folder).parent
    print("\n| fault | what is wrong | | s |\n| ---: | --- | --- | ---: |", flush=True)
    missed = 0
    chosen = [(number, FAULTS[number - 1]) for number in arguments.only or range(1, len(FAULTS) + 1)]
    for number, fault in chosen:
        start = time.monotonic()
        verdict, text = check(build, number, fault, arguments.seeds)
        missed += verdict.startswith("NOT")
        print(f"| {number} | {fault.what} | {verdict} | {time.monotonic() - start:.0f} |", flush=True)
        if arguments.verbose and text:
            print(f"  {text}", flush=True)
    print(f"\n{len(chosen) - missed} of {len(chosen)} found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
