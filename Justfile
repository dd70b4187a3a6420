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

# Write the hash of an unreleased schema into its lock file.
schema-lock:
    python -m lemonpod.contract.lock --refresh

# Run the whole path once with a real engine.
demo:
    lemonpod demo
