# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Threads that use the same objects at once. In a free-threaded Python they run at the same time; elsewhere they take turns."""
import asyncio
import subprocess
import sys
import sysconfig
import threading
import unittest

import heddle
import models
import numpy as np
from onnx import helper

THREADS = 6


def at_once(work, count=THREADS):
    """Runs work(0), work(1) and so on in threads that begin together; what they return. Raises what one of them raises."""
    barrier, out, errors = threading.Barrier(count), [None] * count, []

    def run(number):
        barrier.wait()
        try:
            out[number] = work(number)
        except BaseException as error:  # the thread's, for the test to raise
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return out


class Threads(unittest.TestCase):
    def setUp(self):
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)  # more turns where there is a GIL
        self.addCleanup(sys.setswitchinterval, interval)

    @unittest.skipUnless(sysconfig.get_config_var("Py_GIL_DISABLED"), "this Python has a GIL")
    def test_the_gil_stays_off(self):
        self.assertFalse(sys._is_gil_enabled())

    def test_the_first_use_of_the_package(self):
        first = ("import sys, threading\nfrom heddle._module import shared_runtime\nbarrier, found = threading.Barrier(6), []\n"
                 "def work():\n  barrier.wait()\n  found.append(shared_runtime())\n"
                 "threads = [threading.Thread(target=work) for _ in range(6)]\n[one.start() for one in threads]\n[one.join() for one in threads]\n"
                 "sys.exit(len(found) != 6 or len(set(map(id, found))) != 1)")
        subprocess.run([sys.executable, "-c", first], check=True)

    def test_the_first_calls_of_a_module(self):
        x = np.arange(4, dtype="f4")
        for _ in range(20):
            with heddle.open(models.add(4)) as module:
                for result in at_once(lambda number: module(x, np.full(4, number, "f4")).tolist()):
                    self.assertEqual(result[1] - result[0], 1)
                results = at_once(lambda number: module.main(x, x, out=np.empty(4, "f4")).tolist())
                self.assertEqual(results, [[0, 2, 4, 6]] * THREADS)

    def test_several_results_and_kept_tensors(self):
        module = heddle.open(models.two_results())

        def work(number):
            kept = []
            for n in range(1, 200):
                x = np.full(n, number, "f4")
                total, difference = module(x, x)
                kept.append(total)
                if len(kept) == 8:
                    self.assertEqual([one.numpy().sum() for one in kept], [2 * number * one.shape[0] for one in kept])
                    kept.clear()
                self.assertFalse(difference.numpy().any())

        at_once(work)

    def test_a_tensor_is_released_while_others_use_it(self):
        module = heddle.open(models.add(64))
        ones, right = np.ones(64, "f4"), {"called": 0, "refused": 0}
        for _ in range(60):
            shared = module.main.tensor("x", ones, copy=True)

            def work(number, shared=shared):
                if number == 0:
                    try:
                        shared.release()
                    except BufferError:  # an array uses it
                        pass
                    return "released"
                try:
                    for _ in range(10):
                        if number == 1:
                            self.assertEqual(shared.numpy().sum(), 64)
                        elif number == 2:
                            self.assertEqual(np.from_dlpack(shared).sum(), 64)
                        elif number == 3:
                            self.assertEqual(shared.shape, (64,))
                        else:
                            self.assertEqual(module(shared, shared).numpy().sum(), 128)
                except heddle.FailedPreconditionError as error:
                    self.assertIn("has been released", str(error))
                    return "refused"
                return "called"

            for outcome in at_once(work):
                right[outcome] = right.get(outcome, 0) + 1
        self.assertGreater(right["called"] + right["refused"], 0)

    def test_one_of_several_donations_is_taken(self):
        with heddle.open(_step()) as module:
            for round in range(60):
                state = module.main.tensor("s", np.full(64, round, "f4"), copy=True)

                def work(number, state=state):
                    try:
                        return module(np.ones(64, "f4"), state, donate="s")
                    except heddle.FailedPreconditionError as error:
                        self.assertRegex(str(error), "was donated|took it")
                        return None

                results = [result for result in at_once(work) if result is not None]
                self.assertEqual(len(results), 1)
                self.assertEqual(results[0].tolist(), [round + 1.0] * 64)

    def test_a_module_is_closed_while_others_call(self):
        for asynchronous in (False, True):
            for _ in range(15):
                module, begun = heddle.open(models.add(4096)), threading.Semaphore(0)
                x = heddle.empty(4096, "float32")
                x[:] = 1

                def work(number, module=module, begun=begun, x=x):
                    if number == 0:
                        begun.acquire()
                        return module.close()
                    try:
                        while True:
                            result = module.start(x, x).result() if asynchronous else module(x, x)
                            self.assertEqual(result.numpy()[-1], 2)
                            begun.release()
                    except heddle.FailedPreconditionError as error:
                        self.assertIn("closed", str(error))
                    return None

                at_once(work)

    def test_states_are_made_used_and_closed(self):
        with heddle.open(_step(state=True)) as module:
            def work(number):
                for _ in range(20):
                    with module.state() as own:
                        for k in range(4):
                            self.assertEqual(module(np.full(64, number, "f4"), state=own).tolist(), [k * float(number)] * 64)

            at_once(work)
            for _ in range(20):
                shared = module.state()

                def use(number, shared=shared):
                    if number == 0:
                        return shared.close()
                    try:
                        for _ in range(5):
                            module(np.ones(64, "f4"), state=shared)
                    except heddle.FailedPreconditionError as error:
                        self.assertIn("closed", str(error))
                    return None

                at_once(use)

    def test_one_call_has_several_who_wait(self):
        module, x = heddle.open(models.add(1024)), np.ones(1024, "f4")
        for _ in range(40):
            call = module.start(x, x)

            def work(number, call=call):
                if number == 0:
                    call.cancel()
                try:
                    return call.result(10)
                except heddle.CancelledError:
                    return "cancelled"

            results = at_once(work)
            self.assertTrue(all(result is results[0] for result in results) or results == ["cancelled"] * THREADS)

    def test_an_event_loop_in_each_thread(self):
        module, x = heddle.open(models.add(1024)), np.ones(1024, "f4")

        async def calls(number):
            results = await asyncio.gather(*(module.start(x, np.full(1024, k, "f4")) for k in range(20)))
            return [int(result.numpy()[0]) for result in results]

        self.assertEqual(at_once(lambda number: asyncio.run(calls(number))), [list(range(1, 21))] * THREADS)

    def test_modules_of_one_runtime_come_and_go(self):
        runtime, path = heddle.Runtime(), models.add(4)

        def work(number):
            for k in range(20):
                with heddle.open(path, runtime=runtime) as module:
                    self.assertEqual(module(np.full(4, k, "f4"), np.full(4, number, "f4")).tolist(), [float(k + number)] * 4)
                    self.assertEqual(module.statistics()["calls"], 1)
                self.assertEqual(runtime.tensor(np.ones(3, "f4"), "cpu").tolist(), [1, 1, 1])

        at_once(work)
        runtime.close()
        with self.assertRaises(heddle.FailedPreconditionError):
            heddle.open(path, runtime=runtime)

    def test_a_runtime_is_closed_while_others_open(self):
        for _ in range(5):
            runtime, path = heddle.Runtime(), models.add(4)

            def work(number, runtime=runtime, path=path):
                if number == 0:
                    return runtime.close()
                try:
                    for _ in range(5):
                        with heddle.open(path, runtime=runtime) as module:
                            self.assertEqual(module(np.ones(4, "f4"), np.ones(4, "f4")).tolist(), [2] * 4)
                except heddle.FailedPreconditionError as error:
                    self.assertIn("the runtime is closed", str(error))
                return None

            at_once(work)

    def test_calls_while_parameters_are_loaded(self):
        path, weights = models.heavy(512)
        x = np.zeros((1, 512), "f4")
        for _ in range(5):
            with heddle.open(path, parameters=weights, background=True) as module:
                def work(number, module=module):
                    if number % 2:
                        return module(x).numpy().any()
                    call = module.start(x)
                    if number == 2:
                        del call
                        return False
                    return call.result(30).numpy().any()

                self.assertEqual([bool(one) for one in at_once(work)], [False] * THREADS)


def _step(state=False):
    """The path of s1 = s + x, where s1 takes the memory of s; or of a function that keeps s and returns the old value."""
    nodes, outputs = [helper.make_node("Add", ["s", "x"], ["s1"])], [models.value("s1", [64])]
    inputs = [models.value("x", [64]), models.value("s", [64])]
    if not state:
        return heddle.compile(models.model_of(nodes, inputs, outputs), models.FOLDER / "step.heddle", alias={"s": "s1"})
    nodes.append(helper.make_node("Identity", ["s"], ["old"]))
    outputs.insert(0, models.value("old", [64]))
    return heddle.compile(models.model_of(nodes, inputs, outputs), models.FOLDER / "kept.heddle", state={"s": "s1"})


if __name__ == "__main__":
    unittest.main()
