# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests that look at work while it goes on. On a busy machine it may be over before they look; such a test is run again, a few times."""
import functools
import inspect

TRIES = 5


class Late(AssertionError):
    """The work was over, or other processes had the cores: nothing is known about it."""


def still(kind, use):
    """The exception of that kind by which `use` says that work goes on."""
    try:
        use()
    except kind as error:
        return error
    raise Late("the work was over before the test looked at it")


def earlier(took, limit, what):
    """Checks that something was over before a time in seconds."""
    if took >= limit:
        raise Late(f"{what} took {took:.3f} s, and should take less than {limit:.3f} s")


def again_if_late(test):
    """Runs a test again if it was late. The last failure is that of the test."""
    if inspect.iscoroutinefunction(test):
        @functools.wraps(test)
        async def repeated(self):
            for _ in range(TRIES - 1):
                try:
                    return await test(self)
                except Late:
                    pass
            return await test(self)
    else:
        @functools.wraps(test)
        def repeated(self):
            for _ in range(TRIES - 1):
                try:
                    return test(self)
                except Late:
                    pass
            return test(self)
    return repeated
