"""A real GGUF of half a megabyte: llama.cpp loads it in a fraction of a second and answers nonsense, fast."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import gguf
import numpy as np

_BLOCKS: Final = 2
_WIDTH: Final = 64
_HEADS: Final = 4
_FEED_FORWARD: Final = 128
_CONTEXT: Final = 2048
_SEED: Final = 20

_WORDS: Final = ("▁", "▁the", "▁lemon", "▁pod", "▁tree", "▁is", "▁a", "▁and", "▁yellow", "▁grows", ".", ",")
_CHAT_TEMPLATE: Final = (
    "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)


def write_tiny_gguf(path: Path) -> Path:
    """Write the model to `path`; the same bytes each time."""
    writer = gguf.GGUFWriter(path, "llama")
    _add_shape(writer)
    _add_vocabulary(writer)
    writer.add_chat_template(_CHAT_TEMPLATE)
    _add_weights(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_shape(writer: gguf.GGUFWriter) -> None:
    writer.add_name("tiny")
    writer.add_context_length(_CONTEXT)
    writer.add_embedding_length(_WIDTH)
    writer.add_block_count(_BLOCKS)
    writer.add_feed_forward_length(_FEED_FORWARD)
    writer.add_head_count(_HEADS)
    writer.add_head_count_kv(_HEADS)
    writer.add_rope_dimension_count(_WIDTH // _HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)


def _add_vocabulary(writer: gguf.GGUFWriter) -> None:
    """A SentencePiece vocabulary; its byte tokens make every text tokenizable."""
    special = [
        ("<unk>", gguf.TokenType.UNKNOWN),
        ("<s>", gguf.TokenType.CONTROL),
        ("</s>", gguf.TokenType.CONTROL),
    ]
    byte = [(f"<0x{value:02X}>", gguf.TokenType.BYTE) for value in range(256)]
    words = [(word, gguf.TokenType.NORMAL) for word in _WORDS]
    tokens = special + byte + words
    writer.add_tokenizer_model("llama")
    writer.add_token_list([text for text, _ in tokens])
    writer.add_token_scores([0.0] * len(special + byte) + [-float(rank) for rank in range(len(words))])
    writer.add_token_types([kind for _, kind in tokens])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)


def _add_weights(writer: gguf.GGUFWriter) -> None:
    random = np.random.default_rng(_SEED)
    vocabulary = 3 + 256 + len(_WORDS)

    def add(name: str, *shape: int) -> None:
        writer.add_tensor(f"{name}.weight", random.normal(0.0, 0.05, shape).astype(np.float32))

    def add_norm(name: str) -> None:
        writer.add_tensor(f"{name}.weight", np.ones(_WIDTH, dtype=np.float32))

    add("token_embd", vocabulary, _WIDTH)
    for block in range(_BLOCKS):
        prefix = f"blk.{block}"
        add_norm(f"{prefix}.attn_norm")
        for part in ("q", "k", "v", "output"):
            add(f"{prefix}.attn_{part}", _WIDTH, _WIDTH)
        add_norm(f"{prefix}.ffn_norm")
        add(f"{prefix}.ffn_gate", _FEED_FORWARD, _WIDTH)
        add(f"{prefix}.ffn_up", _FEED_FORWARD, _WIDTH)
        add(f"{prefix}.ffn_down", _WIDTH, _FEED_FORWARD)
    add_norm("output_norm")
    head = np.zeros((vocabulary, _WIDTH), dtype=np.float32)
    head[-len(_WORDS) :] = random.normal(0.0, 1.0, (len(_WORDS), _WIDTH))  # it answers in words, not in bytes
    writer.add_tensor("output.weight", head)
