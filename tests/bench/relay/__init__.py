"""The relay, measured against its peers in one run: `python -m tests.bench.relay`."""
