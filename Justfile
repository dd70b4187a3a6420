# The commands to know. Each uses the environment that `just setup` makes.

export PATH := justfile_directory() / ".venv/bin" + ":" + env_var("PATH")

# List the recipes.
default:
    @just --list

# Make .venv with everything the other recipes need.
setup:
    [ -x .venv/bin/python ] || python3 -m venv .venv
    .venv/bin/pip install --quiet --editable '.[demo,dev]'

# Format the code.
fmt:
    ruff format .

# Mend what ruff can mend.
fix:
    ruff check --fix .

# Format, lint, types, import layers, schema lock.
lint:
    ruff format --check .
    ruff check .
    mypy
    lint-imports
    python -m lemonpod.contract.lock

# Run tests; arguments go to pytest.
test *args:
    pytest {{ args }}

# Everything that CI runs.
check:
    tests/run

# How long starting takes, as ratios.
bench:
    python -m tests.bench.startup

# The relay against nginx, aiohttp, LiteLLM and llama-swap, as table, JSON and plot; needs wrk and nginx.
bench-relay *args:
    python -m tests.bench.relay {{ args }}

# Whether a request costs more with 2,000 models; needs wrk.
bench-scaling *args:
    python -m tests.bench.scaling {{ args }}

# What looking for 1, 100 and 5,000 manifests costs.
bench-discovery *args:
    python -m tests.bench.discovery {{ args }}

# From a load to a ready container, against the runtimes' own programs; needs root and apt.
bench-containers *args:
    python -m tests.bench.containers {{ args }}

# The container engines that tests use, by hand: install, up, down, status, env.
lab *args:
    python -m tests.lab {{ args }}

# Write the hash of an unreleased schema into its lock file.
schema-lock:
    python -m lemonpod.contract.lock --refresh

# Run the whole path once with a real engine.
demo:
    lemonpod demo
