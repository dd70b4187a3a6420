"""A document becomes a Manifest, or a ManifestError with everything that is wrong with it.

First the schema (`structure`), then the rules and the tokens (`rules`); what neither refuses is built here
without a further check.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from lemonpod.contract.location import in_document_order, shown
from lemonpod.contract.manifest import Block, CustomOption, HealthProbe, Manifest
from lemonpod.contract.rules import rule_findings, scan_templates
from lemonpod.contract.structure import schema_text, structure_findings
from lemonpod.contract.tokens import Template
from lemonpod.contract.vocabulary import (
    API_CONTRACT_VERSION,
    Accelerator,
    Capability,
    ModelManagement,
    Os,
    ProbeType,
    SlotPolicy,
    VersionPolicy,
)
from lemonpod.errors import ManifestError, Problem

__all__ = ["parse_manifest", "schema_text"]

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
_Word = TypeVar("_Word")


def parse_manifest(document: object) -> Manifest:
    """The manifest that `document`, a JSON value, says; raises ManifestError with all its problems."""
    if isinstance(document, dict) and (problem := _version_problem(document)):
        raise ManifestError([problem])
    findings = list(structure_findings(document))
    if not isinstance(document, dict):
        raise ManifestError(in_document_order(findings, document))
    templates, token_findings = scan_templates(document)
    findings += token_findings
    findings += rule_findings(document)
    if findings:
        raise ManifestError(in_document_order(findings, document))
    return _manifest(document, templates)


def _version_problem(document: Mapping[str, object]) -> Problem | None:
    """Another contract version, by whose rules the rest of the document goes: not ours to judge."""
    version = document.get("api_contract_version")
    if isinstance(version, str):
        told, ours = f"'{shown(version)}'", version == API_CONTRACT_VERSION
    elif isinstance(version, int | float) and not isinstance(version, bool):
        told, ours = shown(version), version == int(API_CONTRACT_VERSION)  # a quote is missing, no more
    else:
        return None
    if ours:
        return None
    return Problem(
        location="api_contract_version",
        message=f"unsupported api_contract_version {told} (this build supports '{API_CONTRACT_VERSION}')",
        hint="the rest of the file was not looked at",
    )


def _manifest(document: Mapping[str, Any], templates: Mapping[str, Template]) -> Manifest:
    """`document`, in which every rule holds, as a value."""

    def word(name: str, kind: Callable[[str], _Word], default: _Word) -> _Word:
        return kind(document[name]) if name in document else default

    return Manifest(
        recipe=document["recipe"],
        display_name=document["display_name"],
        api_contract_version=document["api_contract_version"],
        capabilities=tuple(map(Capability, document["capabilities"])),
        platforms=_frozen(
            {
                Os(system): _frozen(
                    {Accelerator(name): _block(block, templates) for name, block in blocks.items()}
                )
                for system, blocks in document["platforms"].items()
            }
        ),
        capability_enable_args=_frozen(
            {
                Capability(name): tuple(templates[text] for text in args)
                for name, args in document.get("capability_enable_args", {}).items()
            }
        ),
        probe=_probe(document.get("health_probe", {})),
        reserved_args=tuple(document.get("reserved_args", ())),
        slot_policy=word("slot_policy", SlotPolicy, SlotPolicy.STANDARD),
        model_management=word("model_management", ModelManagement, ModelManagement.LEMOND_MANAGED),
        default_accelerator=word("default_accelerator", Accelerator, None),
        recipe_options=_frozen(document.get("recipe_options", {})),
        custom_options=tuple(map(_custom_option, document.get("custom_options", ()))),
        endpoints=_frozen({Capability(name): path for name, path in document.get("endpoints", {}).items()}),
        downsize_endpoint=document.get("downsize_endpoint"),
        arch_aliases=_frozen(document.get("arch_aliases", {})),
        extends=document.get("extends"),
        variant_of=document.get("variant_of"),
        source=document.get("source"),
        sha256=document.get("sha256"),
        version_policy=word("version_policy", VersionPolicy, None),
        extensions=_frozen(document.get("extensions", {})),
    )


def _block(fields: Mapping[str, Any], templates: Mapping[str, Template]) -> Block:
    def template(name: str) -> Template | None:
        return templates[fields[name]] if name in fields else None

    def several(name: str) -> tuple[Template, ...] | None:
        return tuple(templates[text] for text in fields[name]) if name in fields else None

    return Block(
        command=template("command"),
        args=several("args"),
        env=_frozen({name: templates[text] for name, text in fields.get("env", {}).items()}),
        stop_command=template("stop_command"),
        stop_command_args=several("stop_command_args"),
        working_dir=template("working_dir"),
        reserved_args=tuple(fields["reserved_args"]) if "reserved_args" in fields else None,
        binary=fields.get("binary"),
        argv_extra=several("argv_extra"),
        source=fields.get("source"),
        sha256=fields.get("sha256"),
        version_policy=VersionPolicy(fields["version_policy"]) if "version_policy" in fields else None,
        arch=_frozen(
            {pattern: _block(override, templates) for pattern, override in fields.get("arch", {}).items()}
        ),
    )


def _probe(fields: Mapping[str, Any]) -> HealthProbe:
    given: dict[str, Any] = {}
    if "type" in fields:
        given["type"] = ProbeType(fields["type"])
    if "endpoint" in fields:
        given["endpoint"] = fields["endpoint"]
    if "expected_status" in fields:
        given["expected_status"] = int(fields["expected_status"])
    if "timeout_seconds" in fields:
        given["timeout"] = float(fields["timeout_seconds"])
    if "poll_interval_ms" in fields:
        given["interval"] = fields["poll_interval_ms"] / 1000
    return HealthProbe(**given)


def _custom_option(fields: Mapping[str, Any]) -> CustomOption:
    return CustomOption(
        name=fields["name"],
        cli_flag=fields["cli_flag"],
        default=fields["default_value"],
        help=fields["help"],
        type_name=fields.get("type_name"),
        group=fields.get("group"),
    )


def _frozen(values: Mapping[_Key, _Value]) -> Mapping[_Key, _Value]:
    return MappingProxyType(dict(values))
