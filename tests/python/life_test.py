# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Lifetimes: rounds in flat memory, threads, exit with live objects, fork."""
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
import weakref

import heddle
import models
import numpy as np
from races import Late, again_if_late, earlier, still


def resident_kib():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


class Life(unittest.TestCase):
    def test_rounds_of_open_call_close_in_flat_memory(self):
        path, x = models.add(1024), np.ones(1024, "f4")

        def rounds(count):
            for _ in range(count):
                with heddle.open(path) as module:
                    module(x, x).numpy()
            gc.collect()
            return resident_kib()

        before = rounds(200)
        self.assertLess(rounds(800) - before, 2048)

    def test_parameters_are_replaced_while_others_call(self):
        size, refits = 64, 60
        path, x = models.weighed(size), np.ones((1, size), "f4")

        def file(name, **tensors):
            np.savez(models.FOLDER / name, **tensors)
            return models.FOLDER / name

        def values(k):
            return file(f"values{k}.npz", w=np.full((size, size), k, "f4"), b=np.full(size, k, "f4"))

        results, wrong, done = [], [], threading.Event()

        def call():
            while not done.is_set():
                k, rest = np.divmod(module(x).numpy(), size + 1)  # k * size + k
                if rest.any() or (k != k[0, 0]).any():
                    wrong.append((k, rest))
                results.append(int(k[0, 0]))

        with heddle.open(path, parameters=values(1)) as module:
            threads = [threading.Thread(target=call) for _ in range(3)]
            for thread in threads:
                thread.start()
            for k in range(2, refits):
                module.refit(values(k))
            done.set()
            for thread in threads:
                thread.join()
            self.assertEqual(wrong, [])
            self.assertTrue(set(results) <= set(range(1, refits)))
            self.assertEqual(module(x).numpy()[0, 0], (size + 1) * (refits - 1))
            module.refit(file("b.npz", b=np.zeros(size, "f4")))
            self.assertEqual(module(x).numpy()[0, 0], size * (refits - 1))
            with self.assertRaisesRegex(heddle.NotFoundError, "did you mean 'b'|first tensor is 'bb'"):
                module.refit(file("bb.npz", bb=np.zeros(size, "f4")))
            with self.assertRaisesRegex(heddle.Error, "keeps those it had.*the module expects"):
                module.refit({"": [file("wide.npz", b=np.zeros(size + 1, "f4"))]})
            module.refit(values(3), over=file("b.npz", b=np.zeros(size, "f4")))
            self.assertEqual(module(x).numpy()[0, 0], size * 3)
        with heddle.open(path, parameters=values(2), over=[file("b.npz", b=np.full(size, 5, "f4"))]) as module:
            self.assertEqual(module(x).numpy()[0, 0], size * 2 + 5)
        with self.assertRaisesRegex(heddle.Error, "closed"):
            module.refit(values(1))

    @again_if_late
    def test_parameters_load_in_the_background(self):
        path, weights = models.table(4096, 4096)
        reads = heddle.Runtime(config_text='[param_io]\nmethod = ["buffered"]')  # mapping takes no time, and keeps what others change
        with heddle.open(path, parameters=weights, background=True, runtime=reads) as module:
            self.assertIn("still being loaded after 0 s", str(still(TimeoutError, lambda: module.wait(0))))
            self.assertEqual(module(np.array([7, 4095])).numpy()[:, -1].tolist(), [7, 4095])
            module.wait(0)
        heavy, weights_of_heavy = models.heavy(8192)
        with heddle.open(heavy, parameters=weights_of_heavy, background=True, runtime=reads) as module:
            started = time.monotonic()
            late = still(heddle.DeadlineExceededError, lambda: module(np.ones((1, 8192), "f4"), timeout=0.02))
            self.assertRegex(str(late), "calling 'main' failed: the parameters of .* are still being loaded after its timeout")
            self.assertLess(time.monotonic() - started, 5)
            self.assertEqual(module(np.ones((1, 8192), "f4")).shape, (1, 8192))
        started = time.monotonic()
        heddle.open(path, parameters=weights, background=True, runtime=reads).close()  # ends the load
        self.assertLess(time.monotonic() - started, 5)
        with self.assertRaises(heddle.NotFoundError):
            heddle.open(path, background=True, runtime=reads)
        broken = models.FOLDER / "broken.safetensors"
        for _ in range(20):
            broken.write_bytes(weights.read_bytes())
            module = heddle.open(path, parameters=broken, background=True, runtime=reads)
            os.truncate(broken, 10_000)
            try:
                module.wait()  # the load may be over before the file is truncated
            except heddle.DataLossError:
                break
        for use in (module.wait, lambda: module(np.array([1, 2])), module.statistics):
            with self.assertRaises(heddle.DataLossError):
                use()

    def test_hashes_are_checked_on_request(self):
        path, weights = models.table(64, 64)
        heddle.open(path, parameters=weights, check_hashes=True).close()
        broken = models.FOLDER / "changed.safetensors"
        content = bytearray(weights.read_bytes())
        content[-1] ^= 1
        broken.write_bytes(content)
        heddle.open(path, parameters=broken).close()
        with self.assertRaisesRegex(heddle.DataLossError, "bytes have hash [0-9a-f]{16}, and .* was compiled with [0-9a-f]{16}"):
            heddle.open(path, parameters=broken, check_hashes=True)

    def test_threads_call_at_once(self):
        module, failed = heddle.open(models.add(4)), []

        def work(number):
            x = np.full(4, number, "f4")
            for i in range(2000):
                if module(x, np.full(4, i, "f4")).tolist() != [float(number + i)] * 4:
                    failed.append((number, i))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failed, [])

    @again_if_late
    def test_ctrl_c_and_a_timeout_end_a_call(self):
        module, x = heddle.open(models.long(1024, 32)), np.ones((1024, 1024), "f4")
        module(x, x)
        self.interrupted(0.02, lambda: module(x, x))
        with self.assertRaises(TimeoutError) as caught:
            module(x, x, timeout=0)  # work that is on the device already would go on
        self.assertIn("region_name", caught.exception.payload)
        self.assertEqual(module(x, x).shape, (1024, 1024))

    def interrupted(self, seconds, work):
        """How long the work takes that Ctrl-C ends after some time."""
        kept = signal.signal(signal.SIGALRM, signal.default_int_handler)
        started = time.monotonic()
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds)
            still(KeyboardInterrupt, work)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, kept)
        return time.monotonic() - started

    @again_if_late
    def test_ctrl_c_ends_loading_and_closing(self):
        path, weights = models.heavy(12288)

        def load():  # with a runtime of its own, since instances of one share what they compute
            with heddle.Runtime() as runtime:
                heddle.open(path, parameters=weights, runtime=runtime)

        started = time.monotonic()
        load()
        whole = time.monotonic() - started
        earlier(self.interrupted(0.01, load), whole * 0.7, "an interrupted load")
        module, x = heddle.open(models.long(1024, 32)), np.ones((1024, 1024), "f4")
        started = time.monotonic()
        module(x, x)
        whole = 8 * (time.monotonic() - started)
        for _ in range(8):
            module.start(x, x)
        earlier(self.interrupted(0.05, module.close), whole * 0.7, "an interrupted close")
        self.assertTrue(module.closed)

    @again_if_late
    def test_ctrl_c_ends_a_refit(self):
        size = 8192
        path, weights = models.heavy(size)
        x = np.ones((1, size), "f4")
        new = models.FOLDER / "new_heavy.safetensors"
        with open(weights, "rb") as old, open(new, "wb") as file:
            head = old.read(8)
            file.write(head + old.read(int.from_bytes(head, "little")))
            file.write(np.ones(size, "f4").tobytes())  # the first row
            file.truncate(os.path.getsize(weights))
        with heddle.Runtime() as runtime, heddle.open(path, parameters=weights, runtime=runtime) as module:
            started = time.monotonic()
            module.refit(new)
            whole = time.monotonic() - started
            self.assertEqual(module(x).numpy()[0, 0], 1)
            interrupted = 0
            for when in (0.001, 0.01, whole / 8):
                try:
                    earlier(self.interrupted(when, lambda: module.refit(weights)), max(when + 0.2, whole * 0.7), "an interrupted refit")
                    interrupted += 1
                except Late:
                    pass
                # The old values; the new ones if the refit was all but over, as on a busy machine.
                self.assertIn(module(x).numpy()[0, 0], (0, 1))
                module.refit(new)
                self.assertEqual(module(x).numpy()[0, 0], 1)
            if not interrupted:
                raise Late("no refit was interrupted in time")
            module.refit(weights)
            self.assertEqual(module(x).numpy()[0, 0], 0)
            self.interrupted(0.01, lambda: module.refit(new))

    def test_other_threads_go_on_while_calls_of_a_closed_module_end(self):
        module, x = heddle.open(models.long(1024, 32)), np.ones((1024, 1024), "f4")
        first = module.start(x, x)
        first.result()
        others = [module.start(x, x) for _ in range(4)]
        ticks, stop = [], threading.Event()

        def tick():
            while not stop.wait(0.001):
                ticks.append(time.monotonic())

        thread = threading.Thread(target=tick)
        thread.start()
        del others
        module.close()
        started = time.monotonic()
        del first  # waits for the others
        ended = time.monotonic()
        stop.set()
        thread.join()
        if ended - started > 0.1:
            self.assertGreater(sum(started < one < ended for one in ticks), 5)

    def python(self, text, code=0):
        command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", text, models.add(1 << 16), *map(str, models.heavy(8192))]  # of forks, since 3.12
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        self.assertEqual((done.returncode, done.stderr), (code, ""))
        return done.stdout

    def test_exit_while_a_daemon_thread_works(self):
        start = ("import heddle, logging, numpy, os, sys, threading, time\nm = heddle.open(sys.argv[1])\nx = numpy.ones(1 << 16, 'f4')\n"
                 "def again(work):\n  def loop():\n    while True:\n      work()\n"
                 "  threading.Thread(target=loop, daemon=True).start()\n  time.sleep(0.1)\n")
        works = ("m(x, x)", "m.start(x, x).result()", "m(x, x).numpy()", "heddle.open(sys.argv[1]).close()",
                 "heddle.open(sys.argv[2], parameters=sys.argv[3])", "heddle.open(sys.argv[2], parameters=sys.argv[3], background=True).wait()",
                 "m.statistics()", "m.main.tensor('x', x, copy=True).tolist()")
        for number, work in enumerate(works):
            with self.subTest(work):
                for end, code in (("", 0), ("sys.exit(3)", 3), ("import atexit\natexit.register(time.sleep, 0.02)\ndel m", 0))[number % 3:]:
                    self.python(f"{start}again(lambda held=m: {work.replace('m', 'held', 1) if work[0] == 'm' else work})\n{end}\n", code)

    def test_a_module_is_closed_while_it_takes_an_array(self):
        class Closing:
            def __init__(self, module):
                self.module, self.array = module, np.ones(4096, "f4")

            def __dlpack_device__(self):
                return self.array.__dlpack_device__()

            def __dlpack__(self, **named):
                self.module.close()
                return self.array.__dlpack__(**named)

        uses = {1: lambda function, array: function.tensor("x", array, copy=True), 2: lambda function, array: function(array, np.ones(4096, "f4"))}
        for value, use in uses.items():
            module = heddle.open(models.add(4096), runtime=heddle.Runtime())  # which nothing else keeps
            function, signature, types = module.main, module.main.signature, module.main.arguments
            self.assertEqual(use(function, Closing(module)).numpy()[0], value)
            self.assertTrue(module.closed)
            self.assertEqual((function.signature, function.arguments), (signature, types))
            with self.assertRaisesRegex(heddle.FailedPreconditionError, "closed"):
                use(function, np.ones(4096, "f4"))

    def test_objects_go_with_their_last_reference(self):
        runtime = heddle.Runtime()
        module = heddle.open(models.add(4), runtime=runtime)
        x = np.ones(4, "f4")
        function, tensor, call = module.main, module(x, x), module.start(x, x)
        call.result()
        known = [weakref.ref(one) for one in (runtime, module, function, tensor, call)]
        self.assertTrue(all(one() is not None for one in known))
        gc.disable()
        try:
            del call, tensor, function, module, runtime
            self.assertEqual([one() for one in known], [None] * 5)
        finally:
            gc.enable()

    def test_exit_in_any_order(self):
        names = ("m", "r", "a", "t", "c")
        start = ("import heddle, numpy, sys\nm = heddle.open(sys.argv[1])\nx = numpy.ones(1 << 16, 'f4')\nr = m(x, x)\na = r.numpy()\n"
                 "t = m.main.tensor('x', x)\nc = m.start(t, x)\n")
        for first in range(len(names)):
            order = ", ".join(names[first:] + names[:first])
            self.python(start + f"import atexit\nnow = [{order}]\ndel m, r, a, t, c\natexit.register(now.clear)\n"
                        "class Late:\n  def __init__(self, held): self.held = held\n  def __del__(self): self.held.clear()\nlate = Late(now[:])\n")

    def test_exit_with_live_objects(self):
        self.python("import heddle, numpy, sys\nm = heddle.open(sys.argv[1])\nx = numpy.ones(1 << 16, 'f4')\nr = m(x, x)\n"
                    "a = r.numpy()\nt = m.main.tensor('x', x)\nloop = [m, r, a, t]\nloop.append(loop)\n")

    def test_a_forked_child_is_told_and_exits(self):
        printed = self.python("import heddle, numpy, os, sys\nm = heddle.open(sys.argv[1])\nx = numpy.ones(1 << 16, 'f4')\nr = m(x, x)\n"
                              "child = os.fork()\nif child == 0:\n  try:\n    m(x, x)\n  except heddle.Error as error:\n    print(error.code)\n"
                              "  del m, r\n  print(heddle.open(sys.argv[1])(x, x).tolist()[0])\n  sys.exit(0)\nassert os.waitpid(child, 0)[1] == 0\nm(x, x)\n")
        self.assertEqual(printed.split(), ["FAILED_PRECONDITION", "2.0"])

    def test_every_object_of_the_parent_is_refused_in_a_forked_child(self):
        printed = self.python(
            "import gc, heddle, numpy, os, signal, sys\nrt = heddle.Runtime()\nm = heddle.open(sys.argv[1], runtime=rt)\nx = numpy.ones(1 << 16, 'f4')\n"
            "r, c, s = m(x, x), m.start(x, x), m.state()\n"
            "b = heddle.open(sys.argv[2], parameters=sys.argv[3], background=True)\n"
            "child = os.fork()\nif child == 0:\n  signal.alarm(30)\n"
            "  for use in (b.wait, b.statistics, lambda: b.wait(3), b.close, rt.devices, lambda: heddle.open(sys.argv[1], runtime=rt), lambda: m(x, x), c.result, c.done,\n"
            "              m.state, lambda: m.main.tensor('x', x), m.report, lambda: b(numpy.ones((1, 8192), 'f4'))):\n"
            "    try:\n      use()\n      print('done', flush=True)\n    except heddle.Error as error:\n"
            "      assert 'before this process was forked' in str(error) or 'is closed' in str(error), error\n      print(error.code, flush=True)\n"
            "  assert r.numpy()[0] == 2\n  del r, c, s, b, m, rt\n  gc.collect()\n  print(len(heddle.devices()) > 0)\n  sys.exit(0)\n"
            "assert os.waitpid(child, 0)[1] == 0\nassert c.result().numpy()[0] == 2\nb.wait()\n")
        self.assertEqual(printed.split(), ["FAILED_PRECONDITION"] * 3 + ["done"] + ["FAILED_PRECONDITION"] * 9 + ["True"])


if __name__ == "__main__":
    unittest.main()
