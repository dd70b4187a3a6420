"""Every refusal of the contract, with its place and its exact words."""

# Long because it is the list of all refusals, one row each.

from __future__ import annotations

from typing import Any

import pytest

from lemonpod.contract.parse import parse_manifest
from lemonpod.errors import ManifestError, Problem
from tests.factories import make_document

DIGEST = f"sha256:{'0' * 64}"
URL = "https://example.invalid/engine.tar.gz"


def problems_of(document: object) -> tuple[Problem, ...]:
    with pytest.raises(ManifestError) as refused:
        parse_manifest(document)
    return refused.value.problems


def lines(document: object) -> list[tuple[str, str]]:
    return [(problem.location, problem.message) for problem in problems_of(document)]


def block(**fields: Any) -> dict[str, Any]:
    """A document whose one block has `fields` beside a command; None takes a field away."""
    merged = {"command": "/opt/engine", "args": []} | fields
    return make_document(
        platforms={"linux": {"cpu": {name: value for name, value in merged.items() if value is not None}}}
    )


def variant(top: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    merged = {"binary": "llama-server"} | fields
    present = {name: value for name, value in merged.items() if value is not None}
    return make_document(variant_of="llamacpp", platforms={"linux": {"cpu": present}}, **(top or {}))


def override(**fields: Any) -> dict[str, Any]:
    return block(arch={"gfx1151": fields})


def option(**fields: Any) -> dict[str, Any]:
    entry = {"name": "x", "cli_flag": "--x", "default_value": 1, "help": "X."} | fields
    return make_document(custom_options=[{name: value for name, value in entry.items() if value is not None}])


CPU = "platforms.linux.cpu"
ARCH = "platforms.linux.cpu.arch.gfx1151"

REFUSALS: list[tuple[dict[str, Any], str, str]] = [
    # Unknown fields, at every object level.
    (make_document(foo=1), "foo", "unknown field 'foo' in manifest"),
    (
        make_document(health_probe={"retries": 3}),
        "health_probe.retries",
        "unknown field 'retries' in 'health_probe'",
    ),
    (option(choices=[1]), "custom_options[0].choices", "unknown field 'choices' in a 'custom_options' entry"),
    (block(image="x"), f"{CPU}.image", f"unknown field 'image' in {CPU}"),
    (override(image="x"), f"{ARCH}.image", f"unknown field 'image' in {ARCH}"),
    (override(arch={}), f"{ARCH}.arch", f"unknown field 'arch' in {ARCH}"),
    # Required fields.
    *(
        (make_document(**{name: None}), "", f"missing required field '{name}'")
        for name in ("recipe", "display_name", "api_contract_version", "capabilities", "platforms")
    ),
    *(
        (option(**{name: None}), "custom_options[0]", f"missing required field '{name}'")
        for name in ("name", "cli_flag", "default_value", "help")
    ),
    # Identity.
    (make_document(recipe="A"), "recipe", "invalid 'recipe' id: A"),
    (make_document(recipe="a"), "recipe", "invalid 'recipe' id: a"),
    (make_document(recipe="-ab"), "recipe", "invalid 'recipe' id: -ab"),
    (make_document(recipe="é" * 3), "recipe", "invalid 'recipe' id: ééé"),
    (make_document(recipe=5), "recipe", "invalid 'recipe' id: 5"),
    (make_document(extends="A"), "extends", "invalid 'extends' recipe id: A"),
    (make_document(display_name=""), "display_name", "'display_name' must be a non-empty string"),
    (make_document(display_name=["x"]), "display_name", "'display_name' must be a non-empty string"),
    (
        make_document(api_contract_version="2"),
        "api_contract_version",
        "unsupported api_contract_version '2' (this build supports '1')",
    ),
    (
        make_document(api_contract_version=2),
        "api_contract_version",
        "unsupported api_contract_version 2 (this build supports '1')",
    ),
    (
        make_document(api_contract_version=1),
        "api_contract_version",
        "unsupported api_contract_version 1 (this build supports '1')",
    ),
    (
        make_document(api_contract_version=True),
        "api_contract_version",
        "unsupported api_contract_version true (this build supports '1')",
    ),
    (
        variant({"extends": "base-recipe"}),
        "extends",
        "'extends' and 'variant_of' are mutually exclusive",
    ),
    # Capabilities.
    (make_document(capabilities=[]), "capabilities", "'capabilities' must be a non-empty array"),
    (make_document(capabilities="tts"), "capabilities", "'capabilities' must be a non-empty array"),
    (make_document(capabilities=["telepathy"]), "capabilities[0]", "unknown capability 'telepathy'"),
    (make_document(capabilities=[7]), "capabilities[0]", "unknown capability '7'"),
    (make_document(capabilities=["tts", "image", "tts"]), "capabilities[2]", "duplicate capability 'tts'"),
    (
        make_document(capabilities=["streaming_transcription"]),
        "capabilities[0]",
        "capability 'streaming_transcription' is only available to variant_of manifests",
    ),
    (
        make_document(capability_enable_args={"tts": []}),
        "capability_enable_args.tts",
        "'capability_enable_args' key 'tts' is not a declared capability",
    ),
    (
        make_document(capability_enable_args={"telepathy": []}),
        "capability_enable_args.telepathy",
        "'capability_enable_args' key 'telepathy' is not a declared capability",
    ),
    (
        make_document(endpoints={"tts": "/x"}),
        "endpoints.tts",
        "'endpoints' key 'tts' is not a declared capability",
    ),
    (
        make_document(endpoints={"completion": "x"}),
        "endpoints.completion",
        "'endpoints' value for 'completion' must start with '/'",
    ),
    (
        make_document(endpoints={"completion": 1}),
        "endpoints.completion",
        "'endpoints' value for 'completion' must start with '/'",
    ),
    (make_document(downsize_endpoint="x"), "downsize_endpoint", "'downsize_endpoint' must start with '/'"),
    # Lifecycle and governance.
    (make_document(requested_ports=2), "requested_ports", "v1 supports 'requested_ports' = 1 only"),
    (make_document(requested_ports=True), "requested_ports", "v1 supports 'requested_ports' = 1 only"),
    (make_document(requested_ports="1"), "requested_ports", "v1 supports 'requested_ports' = 1 only"),
    (make_document(slot_policy="greedy"), "slot_policy", "invalid 'slot_policy': greedy"),
    (make_document(model_management="none"), "model_management", "invalid 'model_management': none"),
    (make_document(default_accelerator="fpga"), "default_accelerator", "invalid 'default_accelerator': fpga"),
    (make_document(recipe_options=[]), "recipe_options", "'recipe_options' must be an object"),
    (
        make_document(recipe_options={"x": None}),
        "recipe_options.x",
        "must be a string, a number, a boolean or an array, not null",
    ),
    (make_document(health_probe={"type": "grpc"}), "health_probe.type", "invalid 'health_probe.type': grpc"),
    (
        make_document(health_probe={"endpoint": "health"}),
        "health_probe.endpoint",
        "health_probe.endpoint must start with '/'",
    ),
    *(
        (
            make_document(health_probe={name: value}),
            f"health_probe.{name}",
            f"health_probe.{name} must be between {low} and {high}",
        )
        for name, low, high in (
            ("expected_status", 100, 599),
            ("timeout_seconds", 1, 600),
            ("poll_interval_ms", 10, 5000),
        )
        for value in (low - 1, high + 1, str(low), True, low + 0.5)
    ),
    # Aliases.
    (make_document(arch_aliases={"": "x"}), 'arch_aliases[""]', "'arch_aliases' has an empty arch pattern"),
    (
        make_document(arch_aliases={"gfx1151": ""}),
        "arch_aliases.gfx1151",
        "'arch_aliases' values must be non-empty strings",
    ),
    (
        make_document(arch_aliases={"gfx1151": 5}),
        "arch_aliases.gfx1151",
        "'arch_aliases' values must be non-empty strings",
    ),
    # Platforms and blocks.
    (make_document(platforms={}), "platforms", "'platforms' must be a non-empty object"),
    (make_document(platforms=[]), "platforms", "'platforms' must be a non-empty object"),
    (
        make_document(platforms={"linux": {}}),
        "platforms.linux",
        "'platforms.linux' must be a non-empty object",
    ),
    (
        make_document(platforms={"plan9": {"cpu": {"command": "x", "args": []}}}),
        "platforms.plan9",
        "unknown host OS 'plan9' in 'platforms'",
    ),
    (
        make_document(platforms={"linux": {"fpga": {"command": "x", "args": []}}}),
        "platforms.linux.fpga",
        "unknown accelerator 'fpga' in 'platforms.linux'",
    ),
    (block(args=None), CPU, f"{CPU} must set 'command' and 'args' together"),
    (block(command=None), CPU, f"{CPU} must set 'command' and 'args' together"),
    (block(command=None, args=None), CPU, f"{CPU} must set 'command' and 'args'"),
    (block(command=""), f"{CPU}.command", "'command' must not be empty"),
    (block(args="-m x"), f"{CPU}.args", "must be an array, not a string"),
    (block(args=["-m", 1]), f"{CPU}.args[1]", "must be a string, not a number"),
    (block(args=["a\0b"]), f"{CPU}.args[0]", "must not hold a NUL character"),
    (block(binary="engine"), f"{CPU}.binary", f"{CPU}.binary is only valid with 'variant_of'"),
    (variant(binary=None), CPU, f"{CPU} must set 'binary' for a variant_of recipe"),
    (variant(binary="bin/x"), f"{CPU}.binary", f"{CPU}.binary must be a bare executable name"),
    (variant(binary=""), f"{CPU}.binary", f"{CPU}.binary must be a bare executable name"),
    (variant(command="x"), CPU, f"{CPU} must set 'command' and 'args' together"),
    *(
        (block(**field), CPU, f"{CPU} may only set 'source', 'sha256', or 'version_policy' with 'variant_of'")
        for field in ({"source": URL}, {"sha256": DIGEST}, {"version_policy": "pinned"})
    ),
    *(
        (override(**field), ARCH, f"{ARCH} may only set provenance fields with 'variant_of'")
        for field in ({"source": URL}, {"sha256": DIGEST}, {"version_policy": "roll_forward"})
    ),
    (override(binary="x"), f"{ARCH}.binary", f"{ARCH}.binary is only valid with 'variant_of'"),
    (block(arch={"": {}}), f'{CPU}.arch[""]', f"'{CPU}.arch' has an empty arch pattern"),
    # Provenance.
    (make_document(source=URL), "source", "'source' is only valid with 'variant_of'"),
    (make_document(sha256=DIGEST), "sha256", "'sha256' is only valid with 'variant_of'"),
    (
        make_document(version_policy="pinned"),
        "version_policy",
        "'version_policy' is only valid with 'variant_of'",
    ),
    *(
        (
            variant({"source": url, "version_policy": "roll_forward"}),
            "source",
            "'source' must be an absolute https:// URL",
        )
        for url in ("http://x/y", "https://", "https:///x", "x.tar.gz", "https://x y", 5)
    ),
    *(
        (variant({"sha256": digest}), "sha256", "'sha256' must be 'sha256:<64 lowercase hex>'")
        for digest in ("0" * 64, f"sha256:{'A' * 64}", f"sha256:{'0' * 63}", f"{DIGEST}\n")
    ),
    (variant({"version_policy": "newest"}), "version_policy", "invalid 'version_policy': newest"),
    (
        variant({"source": URL}),
        CPU,
        f"'{CPU}' fetches an artifact and requires 'sha256' (or 'version_policy: roll_forward')",
    ),
    (
        variant(source=URL),
        CPU,
        f"'{CPU}' fetches an artifact and requires 'sha256' (or 'version_policy: roll_forward')",
    ),
    (
        variant(arch={"gfx1151": {"source": URL}}),
        ARCH,
        f"'{ARCH}' fetches an artifact and requires 'sha256' (or 'version_policy: roll_forward')",
    ),
    (
        variant({"version_policy": "roll_forward", "source": URL}, version_policy="pinned"),
        CPU,
        f"'{CPU}' fetches an artifact and requires 'sha256' (or 'version_policy: roll_forward')",
    ),
    # Loader variables: those that are documented, and their families.
    *(
        (block(env={name: "x"}), f"{CPU}.env", f"{CPU}.env must not set loader variable '{name}'")
        for name in (
            "LD_PRELOAD",
            "LD_AUDIT",
            "LD_LIBRARY_PATH",
            "DYLD_INSERT_LIBRARIES",
            "DYLD_LIBRARY_PATH",
            "DYLD_FRAMEWORK_PATH",
            "LD_PRELOAD_32",
            "GCONV_PATH",
        )
    ),
    (
        override(env={"LD_PRELOAD": "x"}),
        f"{ARCH}.env",
        f"{ARCH}.env must not set loader variable 'LD_PRELOAD'",
    ),
    # L17: what an environment cannot hold.
    (block(env={"A=B": "x"}), f'{CPU}.env["A=B"]', "invalid environment variable name 'A=B'"),
    (block(env={"": "x"}), f'{CPU}.env[""]', "invalid environment variable name ''"),
    (block(env={"1A": "x"}), f"{CPU}.env.1A", "invalid environment variable name '1A'"),
    (block(env={"A\n": "x"}), f'{CPU}.env["A\\n"]', "invalid environment variable name 'A\\n'"),
    (block(env={"A": "x\0y"}), f"{CPU}.env.A", "must not hold a NUL character"),
    (block(env={"A": 1}), f"{CPU}.env.A", "must be a string, not a number"),
    (block(env={"A": None}), f"{CPU}.env.A", "must be a string, not null"),
    (block(env={"A": True}), f"{CPU}.env.A", "must be a string, not true"),
    (block(env=["A=x"]), f"{CPU}.env", "must be an object, not an array"),
    # Custom options.
    (option(name="Big"), "custom_options[0].name", "invalid option name 'Big'"),
    (option(cli_flag="-x"), "custom_options[0].cli_flag", "invalid flag '-x'"),
    (option(help=1), "custom_options[0].help", "must be a string, not a number"),
    (make_document(custom_options={}), "custom_options", "must be an array, not an object"),
    (make_document(custom_options=["x"]), "custom_options[0]", "must be an object, not a string"),
    (
        make_document(
            custom_options=[
                {"name": "x", "cli_flag": f"--{flag}", "default_value": 1, "help": ""} for flag in "ab"
            ]
        ),
        "custom_options[1].name",
        "duplicate custom option 'x'",
    ),
    (make_document(reserved_args=["-m", "-m"]), "reserved_args[1]", "duplicate argument '-m'"),
    # The token scan: every place that tokens may be in.
    *(
        (block(**{name: value}), f"{CPU}.{place}", "unknown token '{nope}' in \"{nope}\"")
        for name, value, place in (
            ("command", "{nope}", "command"),
            ("args", ["{nope}"], "args[0]"),
            ("working_dir", "{nope}", "working_dir"),
            ("stop_command", "{nope}", "stop_command"),
            ("stop_command_args", ["{nope}"], "stop_command_args[0]"),
            ("argv_extra", ["{nope}"], "argv_extra[0]"),
            ("env", {"A": "{nope}"}, "env.A"),
            ("arch", {"gfx1151": {"args": ["{nope}"]}}, "arch.gfx1151.args[0]"),
            ("arch", {"gfx115*": {"env": {"A": "{nope}"}}}, "arch.gfx115*.env.A"),
        )
    ),
    (
        make_document(capability_enable_args={"completion": ["x", "{nope}"]}),
        "capability_enable_args.completion[1]",
        "unknown token '{nope}' in \"{nope}\"",
    ),
    (block(args=["a{}b"]), f"{CPU}.args[0]", 'empty token in "a{}b"'),
    (block(args=["{port"]), f"{CPU}.args[0]", 'unterminated token in "{port"'),
    (block(args=["{a{port}}"]), f"{CPU}.args[0]", 'nested token in "{a{port}}"'),
    (block(args=["{custom:}"]), f"{CPU}.args[0]", "token is missing its name: '{custom:}' in \"{custom:}\""),
    (block(args=["{env:A B}"]), f"{CPU}.args[0]", "invalid token name 'A B' in \"{env:A B}\""),
    (
        block(args=["{checkpoint:main:-x}"]),
        f"{CPU}.args[0]",
        "token 'main' does not take a default in \"{checkpoint:main:-x}\"",
    ),
]


@pytest.mark.parametrize(("document", "location", "message"), REFUSALS)
def test_a_refusal_names_its_place_and_its_reason_once(
    document: dict[str, Any], location: str, message: str
) -> None:
    assert lines(document) == [(location, message)]


@pytest.mark.parametrize("document", [None, [], "x", 1, True, [make_document()]])
def test_a_manifest_is_an_object(document: object) -> None:
    (line,) = problems_of(document)
    assert line.message.startswith("a manifest must be an object, not ")


# F01: `$` must not match before a last newline, in any pattern of the contract.
@pytest.mark.parametrize(
    "document",
    [
        make_document(recipe="evil\n"),
        make_document(extends="evil\n"),
        make_document(variant_of="llamacpp\n"),
        variant({"sha256": f"{DIGEST}\n"}),
        variant({"source": f"{URL}\n", "sha256": DIGEST}),
        variant(binary="x\n"),
        make_document(health_probe={"endpoint": "/health\n"}),
        make_document(endpoints={"completion": "/x\n"}),
        make_document(downsize_endpoint="/x\n"),
        option(name="x\n"),
        option(cli_flag="--x\n"),
        block(env={"A\n": "x"}),
        make_document(slot_policy="standard\n"),
        make_document(capabilities=["tts\n"]),
        make_document(platforms={"linux\n": {"cpu": {"command": "x", "args": []}}}),
    ],
)
def test_no_pattern_is_fooled_by_a_last_newline(document: dict[str, Any]) -> None:
    assert problems_of(document)


def test_the_blocks_of_other_systems_and_architectures_are_checked_here() -> None:  # F05
    document = make_document(
        platforms={
            "linux": {"cpu": {"command": "x", "args": []}},
            "windows": {"cuda": {"command": "x", "args": ["{nope}"], "argz": []}},
            "darwin": {"metal": {"command": "x", "args": [], "arch": {"m?": {"env": {"LD_AUDIT": "x"}}}}},
        }
    )
    assert lines(document) == [
        ("platforms.windows.cuda.args[0]", "unknown token '{nope}' in \"{nope}\""),
        ("platforms.windows.cuda.argz", "unknown field 'argz' in platforms.windows.cuda"),
        (
            "platforms.darwin.metal.arch.m?.env",
            "platforms.darwin.metal.arch.m?.env must not set loader variable 'LD_AUDIT'",
        ),
    ]


def test_all_problems_of_a_file_come_at_once_in_the_order_of_the_file() -> None:
    document = {
        "platforms": {"linux": {"cpu": {"command": "{prot}"}}},
        "colour": "red",
        "recipe": "X",
        "capabilities": ["chat_completions"],
        "api_contract_version": "1",
    }
    assert [str(problem) for problem in problems_of(document)] == [
        "missing required field 'display_name'",
        "platforms.linux.cpu must set 'command' and 'args' together (without arguments, say \"args\": [])",
        "platforms.linux.cpu.command: unknown token '{prot}' in \"{prot}\" (did you mean '{port}'?)",
        "unknown field 'colour' in manifest",
        "invalid 'recipe' id: X (2 to 64 of a-z, 0-9, '_' and '-', beginning with a letter or a digit)",
        "capabilities[0]: unknown capability 'chat_completions' (did you mean 'chat_completion'?)",
    ]


@pytest.mark.parametrize("version", ["2", "0", "1.1", "", "1\n", 2, 1.5])
def test_a_document_of_another_version_is_judged_by_nothing_else(version: object) -> None:
    document = make_document(api_contract_version=version, new_field=1, capabilities=["telepathy"])
    assert [problem.location for problem in problems_of(document)] == ["api_contract_version"]


def test_a_version_without_quotes_is_told_beside_the_rest() -> None:
    version, other = problems_of(make_document(api_contract_version=1, foo=1))
    assert version.hint == 'write it as the string "1"'
    assert other.location == "foo"


@pytest.mark.parametrize(
    ("document", "hint"),
    [
        (make_document(capabilites=1), "did you mean 'capabilities'?"),
        (block(comand="x"), "did you mean 'command'?"),
        (make_document(slot_policy="standart"), "did you mean 'standard'?"),
        (block(env={"A": 8080}), 'quote it: "8080"'),
        (block(args=[0.5]), 'quote it: "0.5"'),
        (make_document(endpoints={"tts": "/x"}), "add it to 'capabilities'"),
        (make_document(platforms={"macos": {"cpu": {"command": "x", "args": []}}}), "one of linux, darwin"),
        (block(args=["{checkpoint}"]), "did you mean '{checkpoint:NAME}'?"),
    ],
)
def test_a_refusal_says_what_to_do(document: dict[str, Any], hint: str) -> None:
    (problem,) = problems_of(document)
    assert problem.hint is not None
    assert problem.hint.startswith(hint)


def test_one_source_without_a_digest_is_one_problem_however_many_blocks_use_it() -> None:
    blocks = {"cpu": {"binary": "x"}, "cuda": {"binary": "x", "arch": {"sm_90": {}}}}
    document = make_document(variant_of="llamacpp", source=URL, platforms={"linux": blocks})
    assert [problem.location for problem in problems_of(document)] == [CPU]


def test_a_misspelt_capability_does_not_make_its_endpoint_wrong_too() -> None:
    document = make_document(capabilities=["chat_completions"], endpoints={"chat_completion": "/x"})
    assert [problem.location for problem in problems_of(document)] == ["capabilities[0]"]


def test_a_million_mistakes_do_not_make_a_million_messages() -> None:
    document = make_document(**{f"field{number}": 1 for number in range(20_000)})
    problems = problems_of(document)
    assert len(problems) == 51
    assert problems[-1].message == "and 950 more problems"


def test_a_long_list_of_objects_for_capabilities_is_refused_in_no_time() -> None:
    # Comparing every pair of 20,000 objects would take minutes.
    assert len(problems_of(make_document(capabilities=[{}] * 20_000))) == 51


@pytest.mark.parametrize(
    "document",
    [
        block(argv_extra=["--ignored"]),
        variant(command="x", args=[]),
        variant(),
        variant({"sha256": DIGEST}),
        variant({"source": URL, "version_policy": "roll_forward"}),
        variant({"source": URL}, sha256=DIGEST),
        variant({"source": URL, "sha256": DIGEST}, source=f"{URL}2"),
        variant({"sha256": DIGEST}, arch={"gfx1151": {"source": URL}}),
        block(env={"A": "l1\nl2=3"}),
        block(env={"A": ""}),
        block(args=['--json={"a":1}', "a}b", "{custom:x:-a:-b}", "{custom:x:-}", "{env:HOME}"]),
        block(args=[], stop_command="kill", stop_command_args=["-9", "{pid}"]),
        make_document(requested_ports=1),
        make_document(health_probe={}),
        make_document(extensions={"x": {"y": None}}, recipe_options={"Any Name": ["x", 1]}),
        variant({"capabilities": ["streaming_transcription"]}),
    ],
)
def test_what_the_contract_allows_is_accepted(document: dict[str, Any]) -> None:
    parse_manifest(document)


@pytest.mark.parametrize(
    ("argument", "hint"),
    [("{PORT}", "did you mean '{port}'?"), ({"port": None}, 'quote it: "{port}"')],
)
def test_a_slip_of_the_hand_gets_its_cure(argument: object, hint: str) -> None:
    """Capitals, and YAML that reads an unquoted token as a mapping."""
    block = {"command": "engine", "args": [argument]}
    with pytest.raises(ManifestError) as refused:
        parse_manifest(make_document(platforms={"linux": {"cpu": block}}))
    assert [problem.hint for problem in refused.value.problems] == [hint]
