# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles and runs the cases of ONNX's backend tests (the Python package's folders node, simple, pytorch-converted and pytorch-operator), each as any
model: its inputs are inputs. Writes results.json, and one table by operator, table.md.

    onnx_cases.py --out FOLDER [--device cpu] [--target cpu] [--jobs N] [--only GLOB ...] [--names FILE] [--calls N] [--before FILE]
    onnx_cases.py --out FOLDER --target cuda --device none --modules FOLDER       compiles, for another machine
    onnx_cases.py --out FOLDER --device cuda:0 --modules FOLDER --only-run        runs there; needs neither the compiler nor onnx

Many cases share a process. One that crashes or takes more than --limit seconds fails, and the next one has a new process. With --cache a case whose
files, target, device and libraries are those of an earlier run keeps its verdict, and kernels are compiled once. With --before the results are compared with an earlier results.json.
Exits with 1 if a case fails that passed before, and with 2 if the command is wrong.
"""
import argparse
import contextlib
import fnmatch
import hashlib
import json
import os
import pathlib
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "bench"))
import cases
import heddle_ctypes
import table


ENDED = object()


class Child:
    """A worker process; the next case starts another one after a crash."""
    PROGRAM = HERE / "worker.py"

    def __init__(self, settings, limit):
        self.settings, self.limit, self.process = settings, limit, None

    def start(self):
        if self.process and self.process.poll() is None:
            return
        self.stop()
        self.process = subprocess.Popen([sys.executable, "-B", self.PROGRAM, json.dumps(self.settings)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, start_new_session=True)
        self.said = b""
        self.listener = threading.Thread(target=self.listen, args=(self.process.stderr,), daemon=True)
        self.listener.start()
        if self.read(120) != "ready":
            self.stop()
            raise RuntimeError(f"the worker process did not start: {self.said.decode(errors='replace')[-2000:]}")

    def listen(self, stderr):
        while part := os.read(stderr.fileno(), 65536):
            self.said = (self.said + part)[-20000:]

    def read(self, seconds):
        """The next answer; None if the process did not answer in time, ENDED if it ended."""
        end, text = time.monotonic() + seconds, b""
        while not text.endswith(b"\n"):
            if not select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))[0]:
                return None
            part = os.read(self.process.stdout.fileno(), 1 << 16)
            if not part:
                return ENDED
            text += part
        return json.loads(text)

    def ask(self, question):
        self.start()
        self.said = b""
        try:
            self.process.stdin.write(json.dumps(question).encode() + b"\n")
            self.process.stdin.flush()
            answer = self.read(self.limit)
        except BrokenPipeError:
            answer = ENDED
        if answer is not ENDED and answer is not None:
            if "error" in answer:
                raise RuntimeError(answer["error"])
            return answer
        failed = {"verdict": "failed", "nodes": None}
        if answer is None:
            self.stop()
            return {**failed, "reasons": ["time"], "message": f"no answer after {self.limit:g} s"}
        code = self.process.wait()
        self.stop()
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        lines = self.said.decode(errors="replace").strip().splitlines()
        return {**failed, "reasons": [f"crash {name}"], "message": f"{name}: {lines[-1] if lines else 'no output'}"}

    def stop(self):
        if not self.process:
            return
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.listener.join()
        for file in (self.process.stdin, self.process.stdout, self.process.stderr):
            with contextlib.suppress(BrokenPipeError):
                file.close()
        self.process = None


def digest_of(*paths):
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def libraries():
    """What a verdict depends on, besides the case: libraries, drivers, and these programs."""
    folder = heddle_ctypes.library_path().parent
    found = sorted(folder.glob("libheddle*.so")) + sorted((folder / "heddle" / "plugins.d").glob("*")) + sorted(HERE.glob("*.py"))
    return digest_of(*(path for path in found if path.is_file()))


class Cases:
    """The cases that a command asks for: with folders, operators and results."""

    def __init__(self, arguments):
        self.arguments = arguments
        if arguments.only_run:
            compiled = json.loads((arguments.modules / "results.json").read_text())
            self.operators = {one["name"]: one["operator"] for one in compiled}
            self.known = {one["name"]: one for one in compiled if one["verdict"] != "passed"}
            self.folders = {one["name"]: self.kept(one["name"]) for one in compiled}
        else:
            self.folders, self.known = cases.case_folders(arguments.data or cases.data_folder()), {}
            self.operators = self.find_operators()
        names = arguments.names and arguments.names.read_text().split()
        if names and (missing := sorted(set(names) - self.folders.keys())):
            raise SystemExit(f"{arguments.names}: there is no case {', '.join(missing)}")
        wanted = [name for name in names or self.folders
                  if (not arguments.only or any(fnmatch.fnmatch(name, glob) for glob in arguments.only))
                  and (not arguments.operator or self.operators[name] in arguments.operator)]
        self.folders = {name: self.folders[name] for name in wanted}

    def find_operators(self):
        """Reading all models takes seconds, so that the cache keeps it."""
        path = self.arguments.cache and self.arguments.cache / "operators.json"
        if path and path.exists():
            known = json.loads(path.read_text())
            if known.keys() == self.folders.keys():
                return known
        found = cases.operators_of_cases(self.folders)
        if path:
            path.write_text(json.dumps(found))
        return found

    def kept(self, name):
        """The folder of a case below --modules."""
        return self.arguments.modules / name.replace("/", "~")

    def key(self, name, common):
        folder = self.folders[name]
        return hashlib.sha256((common + digest_of(*sorted(path for path in folder.rglob("*") if path.is_file()))).encode()).hexdigest()


def run_all(chosen, settings, arguments, tell):
    """Results by name, in the order of the cases."""
    results = {name: chosen.known[name] for name in chosen.folders if name in chosen.known}
    cache, cached = arguments.cache, {}
    keys = {}
    if cache:
        common = libraries() + json.dumps(settings, sort_keys=True)
        path = cache / "verdicts.json"
        cached = json.loads(path.read_text()) if path.exists() else {}
        keys = {name: chosen.key(name, common) for name in chosen.folders}
        for name, key in keys.items():
            if key in cached and not (arguments.modules and not (chosen.kept(name) / "module.heddle").exists() and cached[key]["verdict"] == "passed"):
                results[name] = {**cached[key], "name": name}
    left = [name for name in chosen.folders if name not in results]
    tell(f"{len(left)} of {len(chosen.folders)} cases to run, by {arguments.jobs} processes")
    turn, lock = iter(left), threading.Lock()
    errors = []

    def work():
        child = Child(settings, arguments.limit)
        with tempfile.TemporaryDirectory(prefix="heddle-onnx-") as folder:
            try:
                while not errors:
                    with lock:
                        name = next(turn, None)
                    if name is None:
                        return
                    module = pathlib.Path(folder) / "module.heddle"
                    if arguments.modules:
                        chosen.kept(name).mkdir(parents=True, exist_ok=True)
                        module = chosen.kept(name) / "module.heddle"
                    began = time.monotonic()
                    answer = child.ask({"name": name, "folder": str(chosen.folders[name]), "module": str(module)})
                    if arguments.device not in ("cpu", "none") and any(reason.startswith("run") for reason in answer["reasons"]):
                        child.stop()  # a fault may have ended the device's context
                    with lock:
                        results[name] = {"name": name, "operator": chosen.operators[name], **answer, "seconds": round(time.monotonic() - began, 3)}
                        done = sum(one in results for one in left)
                        if done % 100 == 0:
                            tell(f"{done} of {len(left)}")
            except Exception as error:  # of this program: the command fails
                errors.append(error)
            finally:
                child.stop()

    threads = [threading.Thread(target=work) for _ in range(max(1, min(arguments.jobs, len(left))))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    if cache:
        # Verdicts of other libraries are forgotten with the next run of all cases.
        fresh = {keys[name]: results[name] for name in chosen.folders if results[name]["reasons"] != ["time"]}
        partial = arguments.only or arguments.operator or arguments.names
        (cache / "verdicts.json").write_text(json.dumps({**cached, **fresh} if partial else fresh))
    return [results[name] for name in chosen.folders]


def compare_with(before, results, tell):
    """The number of cases that passed before and do not now."""
    old = {one["name"]: one["verdict"] for one in json.loads(before.read_text())}
    now = {one["name"]: one for one in results}
    lost = [name for name, one in now.items() if old.get(name) == "passed" and one["verdict"] != "passed"]
    won = [name for name, one in now.items() if name in old and old[name] != "passed" and one["verdict"] == "passed"]
    for name in lost:
        tell(f"passed before, and fails: {name}: {now[name]['message']}")
    tell(f"compared with {before}: {len(won)} cases pass that failed, {len(lost)} fail that passed")
    return len(lost)


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder for results.json and table.md")
    parser.add_argument("--target", default="cpu", help="as of heddle compile")
    parser.add_argument("--device", default="cpu", help="as of heddle run; none: only compile")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes")
    parser.add_argument("--limit", type=float, default=60, metavar="SECONDS", help="of one case")
    parser.add_argument("--calls", type=int, default=1, metavar="N", help="calls of one case, each with inputs and results of its own; a device may replay the later ones")
    parser.add_argument("--only", action="append", default=[], metavar="GLOB", help="names of cases, without test_; may be repeated")
    parser.add_argument("--names", type=pathlib.Path, metavar="FILE", help="names of cases, one per line")
    parser.add_argument("--operator", action="append", default=[], metavar="NAME", help="cases of this operator; may be repeated")
    parser.add_argument("--cache", type=pathlib.Path, help="folder for verdicts and kernels of earlier runs")
    parser.add_argument("--modules", type=pathlib.Path, help="folder that keeps modules and values")
    parser.add_argument("--only-run", action="store_true", help="run the modules of --modules")
    parser.add_argument("--data", type=pathlib.Path, help="folder with the suites; default: that of the package onnx")
    parser.add_argument("--before", type=pathlib.Path, metavar="FILE", help="an earlier results.json")
    parser.add_argument("--config", default="", help="configuration of the runtime, as TOML")
    parser.add_argument("--failures", action="store_true", help="print each failure")
    arguments = parser.parse_args(argv)
    if arguments.only_run and not arguments.modules:
        parser.error("--only-run needs --modules")
    if arguments.jobs < 1 or arguments.limit <= 0 or arguments.calls < 1:
        parser.error("--jobs, --limit and --calls have to be positive")
    for name in ("cache", "modules", "out"):
        if getattr(arguments, name):
            setattr(arguments, name, getattr(arguments, name).resolve())
    return arguments


def main(argv=None):
    arguments = parse(argv)
    begun = time.monotonic()

    def tell(text):
        print(f"{time.monotonic() - begun:6.1f} s  {text}", flush=True)

    for folder in filter(None, (arguments.out, arguments.cache, arguments.modules)):
        folder.mkdir(parents=True, exist_ok=True)
    kernels = arguments.cache / "kernels" if arguments.cache else None
    if kernels:
        kernels.mkdir(mode=0o700, exist_ok=True)
    settings = {"target": arguments.target, "device": arguments.device, "only_run": arguments.only_run, "config": arguments.config,
                "calls": arguments.calls, "modules": bool(arguments.modules), "kernels": str(kernels or "")}
    chosen = Cases(arguments)
    if not chosen.folders:
        print("no case has such a name", file=sys.stderr)
        return 2
    results = run_all(chosen, settings, arguments, tell)
    (arguments.out / "results.json").write_text(json.dumps(results, indent=1))
    if arguments.modules and not arguments.only_run:
        (arguments.modules / "results.json").write_text(json.dumps(results, indent=1))
    (arguments.out / "table.md").write_text(table.page(results, f"ONNX's cases on {arguments.device}"))
    if arguments.failures:
        for one in results:
            if one["verdict"] != "passed":
                print(f"{one['name']}: {'; '.join(one['reasons'])}\n    {one['message']}")
    tell(table.summary(results))
    return 1 if arguments.before and compare_with(arguments.before, results, tell) else 0


if __name__ == "__main__":
    sys.exit(main())
