# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls that are started and awaited: results, errors, cancellation, lifetimes."""
import asyncio
import contextlib
import gc
import os
import subprocess
import sys
import threading
import time
import unittest
import weakref

import heddle
import models
import numpy as np
from heddle._async import await_call
from races import Late, again_if_late, still


class Started(unittest.TestCase):
    def setUp(self):
        self.long = heddle.open(models.long(1024, 32))
        self.ones = np.ones((1024, 1024), "f4")

    def test_results_are_those_of_a_call(self):
        module = heddle.open(models.two_results())
        x, y = np.arange(2000, dtype="f4"), np.ones(2000, "f4")
        call = module.start(x, y=y)
        both = call.result(60)
        np.testing.assert_array_equal(both.total, x + y)
        self.assertIs(call.result(), both)
        self.assertTrue(call.done())
        self.assertIsNone(call.exception())
        out = [heddle.empty(2000), np.zeros(2001, "f4")[1:]]  # one in place, one by a copy
        self.assertIs(module.main.start(x, y, out=out).result()[1], out[1])
        np.testing.assert_array_equal(out[1], x - y)

    def test_many_calls_at_once(self):
        function = heddle.open(models.add(4)).main
        calls = [function.start(np.full(4, i, "f4"), np.full(4, 1, "f4")) for i in range(200)]
        self.assertEqual([call.result().tolist()[0] for call in calls], [i + 1 for i in range(200)])

    def test_a_timeout_of_result_leaves_the_call_running(self):
        call = self.long.start(self.ones, self.ones)
        with self.assertRaisesRegex(TimeoutError, "still runs after 0 s"):
            call.result(0)
        self.assertEqual(call.result().shape, (1024, 1024))

    def test_mistakes_are_errors_of_start_and_of_result(self):
        module = heddle.open(models.add(4))
        with self.assertRaisesRegex(TypeError, "argument 'y' is missing"):
            module.start(np.ones(4, "f4"))
        with self.assertRaises(heddle.DeadlineExceededError):
            self.long.start(self.ones, self.ones, timeout=0)  # nothing was enqueued
        symbolic = heddle.open(models.two_results())
        x = np.ones(2000, "f4")
        call = symbolic.start(x, x, out=[np.zeros(2001, "f4")[1:], np.zeros(8, "f4")[1:]])
        with self.assertRaisesRegex(ValueError, r"'difference' is f32\[2000\], got an? (array|tensor) of f32\[7\]") as caught:
            call.result()
        self.assertIs(call.exception(), caught.exception)

    def test_cancel_ends_a_call(self):
        call = self.long.start(self.ones, self.ones)
        call.cancel()
        try:
            self.assertEqual(call.result().shape, (1024, 1024))  # all of its work was on the device
        except heddle.CancelledError as error:
            self.assertEqual(error.code, "CANCELLED")
        call.cancel()  # over: nothing

    def test_threads_wait_for_one_call(self):
        call, got = self.long.start(self.ones, self.ones), []
        threads = [threading.Thread(target=lambda: got.append(call.result())) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(set(map(id, got))), 1)

    def test_a_dropped_call_and_a_closed_module(self):
        function = heddle.open(models.add(1 << 16)).main
        x, out = heddle.empty(1 << 16), heddle.empty(1 << 16)
        x[:] = 1
        for _ in range(50):
            function.start(x, function(x, x), out=out)
        gc.collect()
        module = heddle.open(models.long(1024, 8))
        call = module.start(self.ones, self.ones)
        module.close()
        self.assertEqual(call.result().shape, (1024, 1024))
        with self.assertRaisesRegex(heddle.FailedPreconditionError, "closed"):
            module.start(self.ones, self.ones)

    def test_an_argument_that_is_dropped_is_not_used_again(self):
        module = heddle.open(models.add(64, 64))
        one = np.ones((64, 64), "f4")
        calls = []
        for i in range(200):  # a result is the argument of a call that still runs when the next result is made
            middle = module(one, one * i)
            calls.append(module.start(middle, one))
            middle.release()
        for i, call in enumerate(calls):
            self.assertEqual(call.result().numpy()[0, 0], i + 2)

    def test_arguments_are_released_after_the_call(self):
        class Array(np.ndarray):
            pass

        x = heddle.empty((1024, 1024)).view(Array)
        x[:] = 0
        known = weakref.ref(x)
        call = self.long.start(x, self.ones)
        del x
        self.assertIsNotNone(known())
        call.result()
        self.assertIsNone(known())
        self.assertIs(weakref.ref(call)(), call)


class StartedAtLoad(unittest.TestCase):
    """Calls that are started while the parameters of their module are loaded in the background."""
    SIZE = 6144

    def setUp(self):
        self.x = np.ones((1, self.SIZE), "f4")

    def opened(self, model=models.heavy):
        path, weights = model(self.SIZE)
        runtime = heddle.Runtime()  # instances of one share what they load
        self.addCleanup(runtime.close)
        module = heddle.open(path, parameters=weights, background=True, runtime=runtime)
        module.function()
        return module

    def assert_loading(self, module):
        still(heddle.DeadlineExceededError, lambda: module.wait(0))

    @contextlib.contextmanager
    def while_loading(self, module):
        """For checks that can fail once the parameters are loaded."""
        try:
            yield
        except (AssertionError, heddle.Error):
            self.assert_loading(module)
            raise

    @again_if_late
    def test_start_returns_at_once(self):
        with self.opened() as module:
            call = module.start(self.x)
            with self.while_loading(module):
                self.assertFalse(call.done())
                self.assertIn("waiting for parameters", repr(call))
                with self.assertRaisesRegex(TimeoutError, "parameters of its module are still being loaded after 0 s"):
                    call.result(0)
            self.assertFalse(call.result().numpy().any())
            self.assertEqual(module.start(self.x).result().shape, (1, self.SIZE))

    @again_if_late
    def test_calls_begin_in_the_order_in_which_they_were_started(self):
        with self.opened(models.heavy_counter) as module:
            calls = [module.start(self.x) for _ in range(20)]
            self.assert_loading(module)
            self.assertEqual(module(self.x).count.item(), 20)  # it does not overtake them
            calls += [module.start(self.x) for _ in range(3)]
            self.assertEqual([call.result().count.item() for call in calls], [*range(20), 21, 22, 23])

    @again_if_late
    def test_timeouts_and_cancellation_end_calls_that_have_not_begun(self):
        with self.opened() as module:
            late, cancelled, kept = module.start(self.x, timeout=0.001), module.start(self.x), module.start(self.x)
            cancelled.cancel()
            with self.while_loading(module):
                with self.assertRaisesRegex(heddle.CancelledError, "cancelled before the parameters of '.*' were loaded"):
                    cancelled.result()
                with self.assertRaisesRegex(heddle.DeadlineExceededError, "calling 'main' failed: the parameters of .* are still being loaded after its timeout"):
                    late.result()
            with self.assertRaisesRegex(TypeError, "argument 'x' is missing"):
                module.start()
            with self.assertRaisesRegex(heddle.InvalidArgumentError, "'x' expects f32"):
                module.start(np.ones((1, 3), "f4")).result()
            self.assertEqual(kept.result().shape, (1, self.SIZE))

    @again_if_late
    def test_the_error_of_loading_is_that_of_the_call(self):
        path, weights = models.heavy(self.SIZE)
        broken = models.FOLDER / "broken_heavy.safetensors"
        broken.write_bytes(b"")
        os.truncate(broken, os.path.getsize(weights))
        with open(weights, "rb") as good, open(broken, "r+b") as file:
            file.write(good.read(4096))
        # A file that is mapped keeps what others change.
        with heddle.Runtime(config_text='[param_io]\nmethod = ["buffered"]') as runtime, \
                heddle.open(path, parameters=broken, background=True, runtime=runtime) as module:
            call = module.start(self.x)
            self.assert_loading(module)
            os.truncate(broken, 10_000)
            with self.assertRaises(heddle.DataLossError):
                call.result()

    @again_if_late
    def test_dropped_calls_and_closed_modules(self):
        out = heddle.empty((1, self.SIZE))
        out[:] = 7
        x = heddle.empty((1, self.SIZE)).view(type("Array", (np.ndarray,), {}))
        x[:] = 1
        known = weakref.ref(x)
        module = self.opened()
        module.start(x, out=out)
        kept = module.start(x)
        del x
        self.assert_loading(module)
        self.assertIsNotNone(known())
        module.close()
        self.assertEqual(kept.result().shape, (1, self.SIZE))
        self.assertFalse(out.any())  # the call before it is over
        del kept
        end = time.monotonic() + 20
        while known() is not None and time.monotonic() < end:
            time.sleep(0.001)
        self.assertIsNone(known())
        module = self.opened()
        call = module.start(self.x)
        call.cancel()
        del call
        module.close()

    @again_if_late
    def test_donated_tensors(self):
        path = heddle.compile(models.model_of(*models.heavy_step(self.SIZE)), models.FOLDER / "heavy_step.heddle", alias={"s": "s1"},
                              params_in=models.sparse(self.SIZE))
        with heddle.Runtime() as runtime, heddle.open(path, parameters=models.sparse(self.SIZE), background=True, runtime=runtime) as module:
            s, t = (module.main.tensor("s", np.full((1, self.SIZE), value, "f4"), copy=True) for value in (3, 4))
            address = s.address
            call, cancelled = module.start(self.x, s, donate="s"), module.start(self.x, t, donate="s")
            self.assert_loading(module)
            for one in (s, t):
                with self.assertRaisesRegex(heddle.FailedPreconditionError, "it was donated to a call of 'main', which begins when"):
                    one.numpy()
                self.assertFalse(one.released)
            cancelled.cancel()
            self.assertIsInstance(cancelled.exception(), heddle.CancelledError)
            self.assertEqual(t.numpy()[0, 0], 4)  # the call did not take it
            result = call.result()
            self.assertEqual((result.numpy()[0, 0], result.address), (3, address))
            with self.assertRaisesRegex(heddle.FailedPreconditionError, r"a call of 'main' \(input 's'\) took it"):
                s.numpy()


async def _result_of(call):
    return await call


class LoopWithoutReaders(asyncio.SelectorEventLoop):
    """As asyncio documents it for loops that watch no descriptors."""

    def add_reader(self, *arguments):
        raise NotImplementedError


class Awaited(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        asyncio.get_running_loop().set_debug(False)  # it logs steps that take long

    async def test_awaits(self):
        module = heddle.open(models.add(4))
        x = np.ones(4, "f4")
        self.assertEqual((await module.start(x, x)).tolist(), [2.0] * 4)
        results = await asyncio.gather(*(module.start(x, x * i) for i in range(100)))
        self.assertEqual([result.tolist()[0] for result in results], [i + 1.0 for i in range(100)])
        long, ones = heddle.open(models.long(1024, 32)), np.ones((1024, 1024), "f4")
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                await asyncio.sleep(0.001)
                ticks += 1

        ticking = asyncio.create_task(tick())
        result = await long.start(ones, ones)
        ticking.cancel()
        self.assertEqual(result.shape, (1024, 1024))
        self.assertGreater(ticks, 3)  # the loop went on

    async def test_no_thread_waits_for_a_call(self):
        module, before = heddle.open(models.add(4)), threading.active_count()
        x = np.ones(4, "f4")
        most = 0

        async def one(i):
            nonlocal most
            call = module.start(x, x * i)
            most = max(most, threading.active_count())
            return (await call).tolist()[0]

        self.assertEqual(await asyncio.gather(*(one(i) for i in range(1000))), [i + 1.0 for i in range(1000)])
        self.assertEqual(most, before)
        self.assertEqual(await asyncio.gather(*(asyncio.to_thread(asyncio.run, one(i)) for i in range(8))), [i + 1.0 for i in range(8)])
        call = module.start(x, x)
        results = await asyncio.gather(*([_result_of(call) for _ in range(3)]))
        self.assertTrue(results[0] is results[1] is results[2])

    async def test_cancelling_the_task_cancels_the_call(self):
        long, ones = heddle.open(models.long(1024, 32)), np.ones((1024, 1024), "f4")
        long(ones, ones)
        cancelled = []

        class Watched:  # a call whose work is all on the device does not show that it was cancelled
            def __init__(self, call):
                self.call = call

            def __getattr__(self, name):
                return getattr(self.call, name)

            def cancel(self):
                cancelled.append(self)
                self.call.cancel()

            def __await__(self):
                return await_call(self)

        watched = Watched(long.start(ones, ones))
        task = asyncio.ensure_future(watched)
        await asyncio.sleep(0)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        self.assertEqual(cancelled, [watched])
        self.assertIn(type(watched.call.exception(60)), (type(None), heddle.CancelledError))
        with self.assertRaises(asyncio.TimeoutError):
            await asyncio.wait_for(long.start(ones, ones), 0.001)

    async def test_another_thread_waits_for_the_same_call(self):
        size = 1 << 24
        module, x, out = heddle.open(models.add(size)), np.ones(size, "f4"), np.zeros(size + 1, "f4")[1:]  # the result is copied, which takes a while
        for _ in range(8):
            call = module.start(x, x, out=out)
            thread = threading.Thread(target=call.result)
            thread.start()
            while call.done() is False and "running" in repr(call) and thread.is_alive():
                await asyncio.sleep(0)
                self.assertIs(await call, out)
            thread.join()

    @again_if_late
    async def test_parameters_load_in_the_background(self):
        path, weights = models.heavy(8192)
        with heddle.Runtime() as runtime, heddle.open(path, parameters=weights, background=True, runtime=runtime) as module:
            ticks = 0

            async def tick():
                nonlocal ticks
                while True:
                    await asyncio.sleep(0.001)
                    ticks += 1

            ticking = asyncio.create_task(tick())
            try:
                await asyncio.wait_for(module, 0.01)
                raise Late("the parameters were loaded at once")
            except asyncio.TimeoutError:
                pass
            self.assertIs(await module, module)
            ticking.cancel()
            if ticks <= 10:
                raise Late(f"the loop took {ticks} turns while parameters were loaded")
            self.assertEqual((await module.start(np.ones((1, 8192), "f4"))).numpy().any(), False)
            await module

    @again_if_late
    async def test_calls_are_awaited_while_parameters_load(self):
        path, weights = models.heavy(6144)
        with heddle.Runtime() as runtime, heddle.open(path, parameters=weights, background=True, runtime=runtime) as module:
            ticks, x = [], np.ones((1, 6144), "f4")

            async def tick():
                while True:
                    await asyncio.sleep(0.001)
                    ticks.append(time.monotonic())

            ticking = asyncio.create_task(tick())
            waiting = asyncio.ensure_future(module.start(x))
            await asyncio.sleep(0.01)
            if not waiting.cancel():
                raise Late("the call was over before it was cancelled")
            with self.assertRaises(asyncio.CancelledError):
                await waiting
            results = await asyncio.gather(*(module.start(x) for _ in range(10)))
            if len(ticks) <= 10:
                raise Late(f"the loop took {len(ticks)} turns while parameters were loaded")
            self.assertTrue(all(result.shape == (1, 6144) for result in results))
            ticking.cancel()

    async def test_errors_are_raised(self):
        long, ones = heddle.open(models.long(1024, 32)), np.ones((1024, 1024), "f4")
        with self.assertRaises(heddle.DeadlineExceededError):
            await long.start(ones, ones, timeout=0)
        module = heddle.open(models.two_results())
        x = np.ones(2000, "f4")
        with self.assertRaisesRegex(ValueError, "'total' is"):
            await module.start(x, x, out=[np.zeros(7, "f4"), None])


class Loops(unittest.TestCase):
    def test_a_loop_that_watches_no_descriptors(self):
        loop = LoopWithoutReaders()
        long, ones = heddle.open(models.long(1024, 32)), np.ones((1024, 1024), "f4")
        self.assertEqual(loop.run_until_complete(_result_of(long.start(ones, ones))).shape, (1024, 1024))
        loop.close()


class Exit(unittest.TestCase):
    def python(self, text):
        started = time.monotonic()
        done = subprocess.run([sys.executable, "-c", text, models.long(1024, 32), *map(str, models.heavy(6144))], capture_output=True, text=True, timeout=120)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout, time.monotonic() - started

    def test_exit_while_calls_run(self):
        start = "import asyncio, heddle, numpy, sys\nm = heddle.open(sys.argv[1])\nx = numpy.ones((1024, 1024), 'f4')\n"
        self.python(start + "calls = [m.start(x, x) for _ in range(4)]\n")
        self.python(start + "m.start(x, x)\n")
        self.python(start + "from heddle._core import _Completions\nm.start(x, x)._notify(_Completions(), 1)\n")
        self.python(start + "from heddle._core import _Completions\nc = _Completions()\ncall = m.start(x, x)\ncall._notify(c, 1)\n")
        self.python(start + "call = m.start(x, x)\nkept = [m, call, x]\nkept.append(kept)\ndel m\n")

    def test_exit_while_calls_wait_for_parameters(self):
        start = "import heddle, numpy, sys\nm = heddle.open(sys.argv[2], parameters=sys.argv[3], background=True)\nx = numpy.ones((1, 6144), 'f4')\n"
        for end in ("call = m.start(x)", "m.start(x)", "call = m.start(x)\ncall.cancel()", "kept = [m.start(x), m, x]\nkept.append(kept)\ndel m",
                    "m.start(x)\nm.close()"):
            with self.subTest(end):
                self.python(start + end + "\n")

    def test_the_loop_is_closed_before_the_call_is_over(self):
        self.python("import asyncio, heddle, numpy, sys\nm = heddle.open(sys.argv[1])\nx = numpy.ones((1024, 1024), 'f4')\n"
                    "async def main():\n  asyncio.ensure_future(m.start(x, x))\n  await asyncio.sleep(0)\nasyncio.run(main())\n")


if __name__ == "__main__":
    unittest.main()
