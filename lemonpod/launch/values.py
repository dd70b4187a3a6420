"""What every token stands for in one launch, and where that came from (RFC section 4.2)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from lemonpod.contract.tokens import Token
from lemonpod.contract.vocabulary import RESOLVABLE_ENV, Accelerator, ModelManagement
from lemonpod.errors import CheckpointNotFoundError, TokenError
from lemonpod.launch.custom_args import as_text
from lemonpod.launch.options import Options
from lemonpod.launch.plan import Resolved
from lemonpod.launch.request import LaunchRequest
from lemonpod.launch.select import match_arch
from lemonpod.models.entry import MAIN, CheckpointFile

_HINTS: Final = {
    "pid": "it is known to the stop command only",
    "custom_args": "it stands for any number of arguments, so it must be an element of its own",
    "exe_dir": "it comes from the command, which cannot use it itself",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenValues:
    """Looks tokens up. Nothing is computed for a token that no template uses."""

    request: LaunchRequest
    options: Options
    accelerator: Accelerator | None = None
    """What the block is for, once it is known."""
    command: str | None = None
    """The resolved command, once it is known."""

    def text(self, token: Token) -> str:
        return self.resolved(token).value

    def resolved(self, token: Token) -> Resolved:
        """The token's value; raises TokenError, or CheckpointNotFoundError for a file that is not there."""
        match token:
            case Token("custom", str(name)):
                return self._custom(token, name)
            case Token("env", str(name)):
                return self._env(token, name)
            case Token("checkpoint", str(name)):
                return self._checkpoint(token, name)
            case Token("checkpoint_relative", str(name)):
                return self._relative(token, name)
        value = self._fixed(token)
        if value is None:
            hint = self._no_alias() if token.name == "arch_alias" else _HINTS.get(token.name)
            raise TokenError(f"token '{token}' has no value", hint=hint)
        return value

    @property
    def _arch(self) -> str | None:
        facts = self.request.facts
        return facts.arch if self.accelerator is None else facts.arch_of(self.accelerator)

    def _no_alias(self) -> str:
        if self._arch is None:
            return "no GPU architecture is known of this host; 'lemonpod host' says what is"
        return f"no entry of the manifest's arch_aliases is for this host's {self._arch}"

    def _fixed(self, token: Token) -> Resolved | None:
        request, settings, facts = self.request, self.request.settings, self.request.facts
        match token.name:
            case "port":
                return Resolved(str(request.port), "leased port")
            case "host":
                return Resolved(settings.host, "server settings")
            case "log_level":
                return Resolved(settings.log_level, "server settings")
            case "recipe":
                return Resolved(request.manifest.recipe, "manifest")
            case "model_name":
                return Resolved(request.entry.id, "model")
            case "hf_cache":
                return Resolved(str(settings.hf_cache), "server settings")
            case "cache_dir":
                return Resolved(str(settings.cache_dir), "server settings")
            case "rocm_arch":
                return Resolved(facts.rocm_arch or "", "host")
            case "cuda_arch":
                return Resolved(facts.cuda_arch or "", "host")
            case "arch_alias":
                aliases = request.manifest.arch_aliases
                key = match_arch(aliases, self._arch)
                return None if key is None else Resolved(aliases[key], f"arch_aliases.{key}")
            case "resolved_path":
                return self._checkpoint(token, MAIN)
            case "model_relative_path":
                return self._relative(token, MAIN)
            case "model_dir":
                return self._model_dir(token)
            case "exe_dir":
                return None if self.command is None else Resolved(_parent(self.command), "command")
            case name:
                option = self.options.get(name)
                return None if option is None else Resolved(as_text(option.value), option.origin)

    def _custom(self, token: Token, name: str) -> Resolved:
        option = self.options.get(name)
        # A default in the manifest is nearer to the engine than the one that holds for all recipes.
        if option and (option.chosen or token.default is None):
            return Resolved(as_text(option.value), option.origin)
        if token.default is not None:
            return Resolved(token.default, "token default")
        if option := self.options.literal.get(name):
            return Resolved(as_text(option.value), option.origin)
        raise TokenError(
            f"recipe option '{name}' has no value",
            hint=f"set it for the model, in the manifest's recipe_options, or as {{custom:{name}:-DEFAULT}}",
        )

    def _env(self, token: Token, name: str) -> Resolved:
        if name not in RESOLVABLE_ENV:
            raise TokenError(
                f"environment variable '{name}' is not resolvable",
                hint=f"manifests may read: {', '.join(sorted(RESOLVABLE_ENV))}",
            )
        if value := self.request.env.get(name):
            return Resolved(value, "environment")
        if token.default is not None:
            return Resolved(token.default, "token default")
        raise TokenError(
            f"environment variable '{name}' is not set",
            hint=f"set it for the server, or give a default: {{env:{name}:-DEFAULT}}",
        )

    def _checkpoint(self, token: Token, name: str) -> Resolved:
        """The local path, else the text as registered, which only self-managed engines can make use of."""
        file = self._file(token, name)
        if file.path is not None:
            return Resolved(str(file.path), f"checkpoint '{name}'")
        return Resolved(file.ref.text, f"checkpoint '{name}', as registered")

    def _relative(self, token: Token, name: str) -> Resolved:
        """The path below the Hugging Face cache as its links are named, else the bare file name."""
        checkpoint = self._checkpoint(token, name)
        path = PurePath(checkpoint.value)
        hub = self.request.settings.hf_cache
        if path.is_relative_to(hub):
            return Resolved(str(path.relative_to(hub)), checkpoint.origin)
        return Resolved(path.name, checkpoint.origin)

    def _model_dir(self, token: Token) -> Resolved:
        if MAIN not in self.request.entry.checkpoints:
            return Resolved(".", "no main checkpoint")
        checkpoint = self._checkpoint(token, MAIN)
        return Resolved(_parent(checkpoint.value), checkpoint.origin)

    def _file(self, token: Token, name: str) -> CheckpointFile:
        entry = self.request.entry
        if name not in entry.checkpoints:
            raise TokenError(
                f"token '{token}' has no value",
                hint=f"model '{entry.id}' is registered without a '{name}' checkpoint",
            )
        file = self.request.files[name]
        managed = self.request.manifest.model_management is ModelManagement.LEMOND_MANAGED
        if file.path is None and managed:
            raise CheckpointNotFoundError(f"checkpoint '{name}' of model '{entry.id}': {file.problem}")
        return file


def _parent(path: str) -> str:
    """The folder of a path; "." for a bare name."""
    return str(PurePath(path).parent)
