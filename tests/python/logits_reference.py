"""Logits of a GGUF model by Transformers: dequantised weights in float32, the reference.

The reference is kept, cut to what a comparison needs, under $XDG_CACHE_HOME/quire/reference, by the
digest of the model and the tokens: per position the most likely tokens, their log-probabilities and
the probability of all others together.
"""

import hashlib
import os
import pathlib

import numpy

KEPT_TOKENS = 2048
HEAD_ROWS = 128  # rows of logits at a time: a vocabulary of 262,144 makes 1 MiB a row


def cache_dir():
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(base) / "quire" / "reference"


def reference(model_path, tokens):
    """A dictionary of arrays: ids and logprobs [n][KEPT_TOKENS], rest [n], best [n]."""
    digest = hashlib.sha256(pathlib.Path(model_path).read_bytes())
    digest.update(numpy.asarray(tokens, dtype=numpy.int32).tobytes())
    path = cache_dir() / f"{digest.hexdigest()[:32]}-1.npz"
    if not path.exists():
        arrays = compute(model_path, tokens)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}.tmp")
        with open(partial, "wb") as file:
            numpy.savez(file, **arrays)
        partial.rename(path)
    with numpy.load(path) as stored:
        return {name: stored[name] for name in stored.files}


def compute(model_path, tokens):
    import torch

    model = load(model_path)
    with torch.inference_mode():
        ids = torch.tensor([list(tokens)], dtype=torch.long)
        hidden = model.model(ids, use_cache=False).last_hidden_state[0]
        parts = [cut(model.lm_head(rows)) for rows in hidden.split(HEAD_ROWS)]
    return {name: numpy.concatenate([part[name] for part in parts]) for name in parts[0]}


def cut(logits):
    logprobs = logits.float().log_softmax(-1)
    top = logprobs.topk(KEPT_TOKENS)
    rest = (1 - top.values.double().exp().sum(-1)).clamp(min=0)
    return {"ids": top.indices.int().numpy(), "logprobs": top.values.numpy(),
            "rest": rest.numpy(), "best": top.indices[:, 0].int().numpy()}


def load(model_path):
    """A Transformers model with the GGUF's weights, dequantised by the gguf package."""
    import gguf
    import torch
    from transformers import Gemma3ForCausalLM, LlamaForCausalLM

    reader = gguf.GGUFReader(model_path)
    fields = {name: field.contents() for name, field in reader.fields.items()
              if not name.startswith("tokenizer.")}
    family = fields["general.architecture"]
    config = {"llama": llama_config, "gemma3": gemma3_config}[family](fields, reader)
    model = {"llama": LlamaForCausalLM, "gemma3": Gemma3ForCausalLM}[family](config)
    weights = {}
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(numpy.float32)
        name = hugging_face_name(tensor.name, post_norms=family == "gemma3")
        if family == "llama" and tensor.name.endswith(("attn_q.weight", "attn_k.weight")):
            values = unpaired(values, config.head_dim)
        if family == "gemma3" and "norm" in tensor.name:
            values = values - 1  # GGUF stores 1 + w
        weights[name] = torch.from_numpy(values)
    missing, unexpected = model.load_state_dict(weights, strict=False)
    if unexpected or [name for name in missing if name != "lm_head.weight"]:
        raise RuntimeError(f"weights do not fit: missing {missing}, unexpected {unexpected}")
    model.tie_weights()
    return model.float().eval()


def unpaired(weight, head_dim):
    """Rows in Transformers' order: GGUF's llama files pair the two halves of a head."""
    heads = weight.shape[0] // head_dim
    return (weight.reshape(heads, head_dim // 2, 2, -1).swapaxes(1, 2)
            .reshape(weight.shape).copy())


def hugging_face_name(name, post_norms):
    if name.startswith("blk."):
        _, layer, rest = name.split(".", 2)
        part = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj",
                "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
                "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
                "attn_k_norm": "self_attn.k_norm", "ffn_gate": "mlp.gate_proj",
                "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
                "post_attention_norm": "post_attention_layernorm",
                "post_ffw_norm": "post_feedforward_layernorm",
                # Before the feed-forward network; its name depends on whether there are post-norms.
                "ffn_norm": ("pre_feedforward_layernorm" if post_norms
                             else "post_attention_layernorm")}[rest.removesuffix(".weight")]
        return f"model.layers.{layer}.{part}.weight"
    return {"token_embd.weight": "model.embed_tokens.weight", "output.weight": "lm_head.weight",
            "output_norm.weight": "model.norm.weight"}[name]


def common_config(fields, reader, prefix):
    embedding = next(t for t in reader.tensors if t.name == "token_embd.weight")
    return {
        "vocab_size": int(embedding.shape[1]),
        "hidden_size": fields[f"{prefix}.embedding_length"],
        "intermediate_size": fields[f"{prefix}.feed_forward_length"],
        "num_hidden_layers": fields[f"{prefix}.block_count"],
        "num_attention_heads": fields[f"{prefix}.attention.head_count"],
        "num_key_value_heads": fields[f"{prefix}.attention.head_count_kv"],
        "max_position_embeddings": fields[f"{prefix}.context_length"],
        "rms_norm_eps": fields[f"{prefix}.attention.layer_norm_rms_epsilon"],
        "tie_word_embeddings": all(t.name != "output.weight" for t in reader.tensors),
    }


def llama_config(fields, reader):
    from transformers import LlamaConfig

    config = common_config(fields, reader, "llama")
    config["head_dim"] = config["hidden_size"] // config["num_attention_heads"]
    theta = fields["llama.rope.freq_base"]
    return LlamaConfig(**config, rope_theta=theta,
                       rope_parameters={"rope_type": "default", "rope_theta": theta})


def gemma3_config(fields, reader):
    from transformers import Gemma3TextConfig

    config = common_config(fields, reader, "gemma3")
    layers = config["num_hidden_layers"]
    head_dim = fields["gemma3.attention.key_length"]
    theta = fields["gemma3.rope.freq_base"]
    return Gemma3TextConfig(
        **config, head_dim=head_dim, query_pre_attn_scalar=head_dim,
        sliding_window=fields["gemma3.attention.sliding_window"],
        layer_types=["full_attention" if i % 6 == 5 else "sliding_attention"
                     for i in range(layers)],
        rope_parameters={
            "full_attention": {"rope_type": "default", "rope_theta": theta},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}})
