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

# The tests of what is random with other inputs each time, and the fuzz tests with more of them.
nightly *args:
    LEMONPOD_TEST_SEED=$(date +%s) pytest tests/engines/test_rounds.py {{ args }}
    FUZZ_STREAMS=100000 SLOT_SEQUENCES=10000 pytest tests/fuzz --hypothesis-profile=random --timeout=3600 {{ args }}

# Everything that CI runs.
check:
    tests/run

# Everything that is measured, in one run, as table, JSON and plot in build/bench; --quick, or names of parts.
bench *args:
    python -m tests.bench {{ args }}

# One bench with options of its own: relay, startup, discovery, scaling, loading, containers, rename.
bench-only name *args:
    python -m tests.bench.{{ name }} {{ args }}

# The plot of the documentation, without LiteLLM: nothing else should use the machine meanwhile.
bench-plot:
    python -m tests.bench.relay --peers nginx,aiohttp,llama-swap,lemonpod --rounds 2
    cp build/bench/relay.svg docs/benchmarks.svg

# The container engines that tests use, by hand: install, up, down, status, env.
lab *args:
    python -m tests.lab {{ args }}

# Write the hash of an unreleased schema into its lock file.
schema-lock:
    python -m lemonpod.contract.lock --refresh

# Run the whole path once with a real engine.
demo:
    lemonpod demo
