# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times several contenders in turns, so that what else the machine does falls on all of them alike.

Used by every benchmark here. Knows nothing of what is timed.
"""
import os
import platform
import statistics
import time


def measure(contenders, rounds=10, seconds=0.2, minimum_calls=3, pause=0.03):
    """Seconds a call of each contender ({name: function}), as {name: [one median per round]}.

    In a round each contender in turn gets one untimed call, then timed ones for `seconds` or
    `minimum_calls`, whichever is longer. The order turns by one each round, and a pause lets the
    threads of the one before stop spinning.
    """
    names = list(contenders)
    medians = {name: [] for name in names}
    for index in range(rounds):
        first = index % len(names)
        for name in names[first:] + names[:first]:
            time.sleep(pause)
            call = contenders[name]
            call()
            times, started = [], time.perf_counter()
            while len(times) < minimum_calls or time.perf_counter() - started < seconds:
                before = time.perf_counter()
                call()
                times.append(time.perf_counter() - before)
            medians[name].append(statistics.median(times))
    return medians


def ratio(medians, ours, theirs):
    """The median of the rounds' own ratios: steadier than a ratio of medians when the machine's speed drifts."""
    return statistics.median(a / b for a, b in zip(medians[ours], medians[theirs]))


def milliseconds(values):
    return f"{statistics.median(values) * 1e3:.2f}"


def cores():
    return len(os.sched_getaffinity(0))


def machine():
    """The processor's name and how many cores this process may use, in one line."""
    model = platform.processor() or platform.machine()
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return f"{model}, {cores()} cores, load {os.getloadavg()[0]:.1f}"


def table(headings, rows):
    """A Markdown table; every column but the first is aligned to the right."""
    lines = ["| " + " | ".join(headings) + " |", "| --- |" + " ---: |" * (len(headings) - 1)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows])
