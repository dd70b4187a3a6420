"""The labels that say what a model is deployed as."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from lemonpod.contract.vocabulary import Mode
from lemonpod.errors import ConfigError

MODE_LABELS: Final[Mapping[str, Mode]] = MappingProxyType(
    {
        "chat": Mode.CHAT,
        "embeddings": Mode.EMBEDDINGS,
        "embedding": Mode.EMBEDDINGS,
        "reranking": Mode.RERANKING,
        "transcription": Mode.TRANSCRIPTION,
        "image": Mode.IMAGE,
        "tts": Mode.TTS,
        "audio-generation": Mode.AUDIO_GENERATION,
        "classification": Mode.CLASSIFICATION,
        "classifier": Mode.CLASSIFICATION,
        "3d": Mode.MODEL_3D,
    }
)


def labelled_mode(labels: Iterable[str]) -> Mode | None:
    """The mode that the labels name; `chat` wins, and with no such label it is the recipe's to say.

    Raises ConfigError where they name two.
    """
    modes = {MODE_LABELS[label]: label for label in labels if label in MODE_LABELS}
    if Mode.CHAT in modes:
        return Mode.CHAT
    if len(modes) > 1:
        names = " and ".join(f"'{label}'" for label in modes.values())
        raise ConfigError(
            f"the labels {names} stand for different modes, and a model has one",
            hint="keep one of them, or register the model twice",
        )
    return next(iter(modes), None)
