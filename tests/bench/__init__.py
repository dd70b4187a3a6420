"""What lemonpod costs, measured: `python -m tests.bench`.

Each bench is a module with `bench(run) -> Report`, and a program by itself.
"""
