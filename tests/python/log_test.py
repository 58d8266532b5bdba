# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The log of the runtime as records of logging, from every thread."""
import logging
import signal
import subprocess
import sys
import threading
import time
import unittest

import heddle
import models
import numpy as np


def runtime(level):
    """One that logs the method by which it reads parameters."""
    return heddle.Runtime(config_text=f'log.level = "{level}"\nparam_io.method = ["buffered"]\n')


class Log(unittest.TestCase):
    def test_lines_are_records_of_the_part_that_wrote_them(self):
        with self.assertLogs("heddle", level=5) as caught, runtime("trace") as one:
            path, weights = models.table(256, 64)
            heddle.open(path, parameters=weights, runtime=one)(np.array([1, 2]))
            made_here = {record.thread for record in caught.records}
        self.assertLessEqual({"heddle.host", "heddle.memory"}, {record.name for record in caught.records})
        self.assertEqual(made_here, {threading.get_ident()})
        self.assertTrue(all(record.getMessage() and record.levelno in (5, 10, 20, 30, 40) for record in caught.records))

    def test_the_configured_level_decides(self):
        with self.assertNoLogs("heddle", level=5), runtime("off") as one:
            heddle.open(models.add(4), runtime=one)

    def test_lines_of_background_work_arrive_while_the_main_thread_runs(self):
        with self.assertLogs("heddle.memory", level=5) as caught, runtime("trace") as one:
            path, weights = models.table(256, 64)
            module = heddle.open(path, parameters=weights, runtime=one, background=True)
            module.wait()
            end = time.monotonic() + 20
            while not any("is read" in record.getMessage() for record in caught.records) and time.monotonic() < end:
                pass
        self.assertTrue(any("is read" in record.getMessage() for record in caught.records), caught.output)

    def test_a_handler_may_use_heddle_and_may_fail(self):
        class Curious(logging.Handler):
            seen = 0

            def emit(self, record):
                Curious.seen += 1
                heddle.devices()
                raise RuntimeError("from the handler")

        handler, logger = Curious(), logging.getLogger("heddle")
        logger.addHandler(handler)
        logger.setLevel(5)
        unraisable, sys.unraisablehook = sys.unraisablehook, lambda _: None
        try:
            with runtime("trace") as one:
                path, weights = models.table(256, 64)
                result = heddle.open(path, parameters=weights, runtime=one)(np.array([1, 2]))
        finally:
            logger.removeHandler(handler)
            for thread in threading.enumerate():
                if thread.name == "heddle.log":
                    thread.join()
            sys.unraisablehook = unraisable
            logger.setLevel(logging.NOTSET)
        self.assertEqual(result.numpy()[:, -1].tolist(), [1.0, 2.0])
        self.assertGreater(Curious.seen, 1)

    def test_a_handler_may_use_the_runtime_that_is_being_made(self):
        # A line of another runtime may be delivered while the one of the process is made.
        text = ("import heddle, logging\nfrom heddle import _module\nused = []\nclass Curious(logging.Handler):\n"
                "    def emit(self, record):\n        used.append(_module.shared_runtime())\n"
                "logging.getLogger('heddle').addHandler(Curious())\n"
                "class Loud(heddle.Runtime):\n    lines = ['a line']\n    def __init__(self):\n        super().__init__()\n"
                "        if Loud.lines: logging.getLogger('heddle').warning(Loud.lines.pop())\n"
                "_module.Runtime = Loud\nmade = _module.shared_runtime()\nprint(len(used), made is used[0], made.closed)\n")
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "1 True False\n", ""))

    def test_a_handler_may_need_a_lock_that_the_main_thread_holds(self):
        # As that of queue.Queue, which is held in put().
        text = ("import heddle, logging, sys, threading, time\nlock, seen = threading.Lock(), []\nclass Locking(logging.Handler):\n"
                "    def emit(self, record):\n        with lock: seen.append(record)\n"
                "logging.getLogger('heddle').addHandler(Locking())\nlogging.getLogger('heddle').setLevel(5)\n"
                "reads = heddle.Runtime(config_text='log.level = \"trace\"\\nparam_io.method = [\"buffered\"]\\n')\n"
                "with heddle.open(sys.argv[1], parameters=sys.argv[2], runtime=reads, background=True) as module:\n"
                "    with lock:\n        begun = time.monotonic()\n        while time.monotonic() < begun + 1: time.sleep(0.001)\n"
                "    while not any('is read' in record.getMessage() for record in seen): time.sleep(0.001)\n"
                "print({record.threadName for record in seen} <= {'MainThread', 'heddle.log'})\n")
        done = subprocess.run([sys.executable, "-c", text, *map(str, models.heavy(4096))], capture_output=True, text=True, timeout=120)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "True\n", ""))

    def test_lines_that_come_while_logging_is_imported(self):
        text = ("import sys, heddle\nassert 'logging' not in sys.modules\nsys.modules.pop('string', None)\n"
                "class Import:\n    runtime = None\n    def find_spec(self, name, *_):\n"
                "        if name == 'string' and not Import.runtime:\n"
                "            Import.runtime = heddle.Runtime(config_text='log.level = \"trace\"')\n"
                "            heddle.open(sys.argv[1], runtime=Import.runtime).close()\n"
                "sys.meta_path.insert(0, Import())\nimport logging\nseen = []\nclass Kept(logging.Handler):\n"
                "    def emit(self, record): seen.append(record)\n"
                "logging.getLogger('heddle').addHandler(Kept())\nlogging.getLogger('heddle').setLevel(5)\n"
                "Import.runtime.close()\nprint(len(seen) > 0)\n")
        done = subprocess.run([sys.executable, "-c", text, models.add(4)], capture_output=True, text=True, timeout=120)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "True\n", ""))

    def test_ctrl_c_in_a_handler_arrives(self):
        class Interrupted(logging.Handler):
            seen = 0

            def emit(self, record):
                Interrupted.seen += 1
                if Interrupted.seen == 1:
                    signal.raise_signal(signal.SIGINT)

        handler, logger = Interrupted(), logging.getLogger("heddle")
        logger.addHandler(handler)
        logger.setLevel(5)
        kept = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with runtime("trace") as one, self.assertRaises(KeyboardInterrupt):
                heddle.open(models.add(4), runtime=one)
                time.sleep(0)
        finally:
            signal.signal(signal.SIGINT, kept)
            logger.removeHandler(handler)
            logger.setLevel(logging.NOTSET)
        self.assertGreater(Interrupted.seen, 0)

    def test_nothing_else_goes_to_stderr(self):
        text = ("import heddle, logging, numpy, sys\nlogging.getLogger('heddle').addHandler(logging.NullHandler())\n"
                "m = heddle.open(sys.argv[1], runtime=heddle.Runtime(config_text='[log]\\nlevel = \"trace\"\\n'))\nx = numpy.ones(4, 'f4')\nm(x, x)\nm.close()\n")
        done = subprocess.run([sys.executable, "-c", text, models.add(4)], capture_output=True, text=True, timeout=120)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
