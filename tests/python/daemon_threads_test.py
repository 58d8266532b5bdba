# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The interpreter ends while daemon threads are in heddle: in calls that block, and in Python code that heddle has called."""
import re
import subprocess
import sys
import unittest

import models

START = """
import heddle, logging, numpy, os, sys, threading, time
m = heddle.open(sys.argv[1])
x = numpy.ones(1 << 16, 'f4')

def pause():  # longer than the main thread lives, or so short that it ends at any moment
    time.sleep(PAUSE)

class Exporter:
    def __init__(self): self.array = numpy.ones(1 << 16, 'f4')
    def __dlpack_device__(self):
        pause()
        return self.array.__dlpack_device__()
    def __dlpack__(self, **named):
        pause()
        return self.array.__dlpack__(**named)

class Stream:
    @property
    def cuda_stream(self):
        pause()
        return 0

class Seconds:
    def __float__(self):
        pause()
        return 60.0

class Name:
    def __repr__(self):
        pause()
        return 'a name'

class Held(numpy.ndarray):
    def __del__(self): pause()

class Bits:  # looked at by bits_of
    @property
    def dtype(self):
        pause()
        raise AttributeError('dtype')
    __dlpack_device__ = Exporter.__dlpack_device__
    __dlpack__ = Exporter.__dlpack__
    def __init__(self): self.array = numpy.ones(1 << 16, 'f4')

class Index:
    def __index__(self):
        pause()
        return 1

class Slow(logging.Handler):
    def emit(self, record): pause()

def held():
    array = heddle.empty(1 << 16).view(Held)
    array[:] = 1
    return array

def error(work):
    try: work()
    except heddle.Error: pass

def log():
    runtime = heddle.Runtime(config_text='log.level = "trace"')
    logging.getLogger('heddle').addHandler(Slow())
    logging.getLogger('heddle').setLevel(5)
    heddle.open(sys.argv[1], runtime=runtime)(x, x)

def again(work):
    while True: work()

for _ in range(3):
    threading.Thread(target=again, args=(lambda: WORK,), daemon=True).start()
time.sleep(0.05)
END
"""

# Python code that heddle calls: of arrays and other arguments, of handlers of the log, of objects whose last reference is one of heddle's.
CALLED = ("m(x, Exporter())", "m.start(x, Exporter()).result()", "m.main.tensor('x', Exporter())", "heddle.tensor(Exporter(), 'cpu')", "m(x, Bits())",
          "m(x, x, out=Exporter())", "error(lambda: m(x, x, stream=Stream()))", "m(x, x, timeout=Seconds())", "m.start(x, x).result(Seconds())",
          "error(lambda: m(x, x, stream=Name()))", "error(lambda: m(x, x, state=Name()))", "error(lambda: m(x, x, donate=(Name(),)))", "m(held(), x)",
          "m.start(held(), held()).result()", "m.main.tensor('x', held(), copy=True)", "m.main.tensor('x', held())", "m(x, x).__dlpack__(max_version=(Index(), 0))",
          "log()")

# What a thread without the GIL logs after the handlers of atexit: on stderr (docs/python.md).
LINES = r"(host|memory|submit|heddle\.[\w.]+): .*"
END_SLOWLY = """
class Held:
    def __del__(self, sleep=time.sleep): sleep(0.2)
sys.held = Held()  # which is deleted after the handlers
"""


class Exit(unittest.TestCase):
    def exits(self, work, pause, end="", code=0, lines_of_log="(?!)"):
        text = START.replace("PAUSE", str(pause)).replace("WORK", work).replace("END", end)
        done = subprocess.run([sys.executable, "-c", text, models.add(1 << 16)], capture_output=True, text=True, timeout=120)
        others = [line for line in done.stderr.splitlines() if not re.fullmatch(lines_of_log, line)]
        self.assertEqual((done.returncode, others), (code, []), done.stderr)

    def test_python_code_that_heddle_has_called(self):
        for number, work in enumerate(CALLED):
            for pause in (0.08, 0.0001):
                with self.subTest(work, pause=pause):
                    self.exits(work, pause, *(("", 0), ("sys.exit(3)", 3), ("import atexit\natexit.register(time.sleep, 0.05)", 0))[number % 3],
                               lines_of_log=LINES if work == "log()" else "(?!)")

    def test_log_while_the_interpreter_ends_slowly(self):
        for _ in range(3):
            self.exits("log()", 0.0001, END_SLOWLY, lines_of_log=LINES)


if __name__ == "__main__":
    unittest.main()
