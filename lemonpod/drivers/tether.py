"""Runs a program that ends when the thread that started it does: `python tether.py PARENT PROGRAM ARG…`.

A file to be run, not imported: the request to be signalled (PR_SET_PDEATHSIG, prctl(2)) survives an exec, and
asking for it between fork and exec may deadlock in a program with threads.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() == int(sys.argv[1]):  # else it has ended before we asked
        os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606
