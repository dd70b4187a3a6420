"""Real container engines for the tests, on sockets, storage and configuration of their own.

`python -m tests.lab up` brings them up by hand, and pytest's fixtures (`tests.lab.fixtures`) for a test run.
"""

from __future__ import annotations
