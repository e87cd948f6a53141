"""Writes NAME-HIDDEN.json next to this file: results of Hugging Face transformers for tiny random decoder models.

    pip install torch==2.15.0 transformers==5.23.0 safetensors numpy
    python3 generate.py [NAME ...]

Without names, all models are generated. A file contains the `config.json` of a checkpoint, the names and shapes of its
tensors, and the input tokens. For a few positions it contains the residual stream before the first layer and after each
layer (before the final norm), and the logits. All results are computed in float32 on a CPU, with eager attention and
experts, in one pass over all tokens.

The weights are not stored. `weights` computes them from the tensors' names, so that tests can compute the same weights.
"""

import json
import os
import pathlib
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import safetensors.numpy
import torch
import transformers

VOCAB = 96
TOKENS = [(t * t * 7 + 13 * t + 5) % VOCAB for t in range(40)]
POSITIONS = [0, 16, 39]

# Common fields of all configs, by hidden size.
SIZES = {
    64: {
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_attention_heads": 4,
        "num_hidden_layers": 4,
        "num_key_value_heads": 2,
    },
    576: {
        "hidden_size": 576,
        "intermediate_size": 192,
        "num_attention_heads": 9,
        "num_hidden_layers": 2,
        "num_key_value_heads": 3,
    },
}
COMMON = {
    "attention_dropout": 0.0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "initializer_range": 0.02,
    "max_position_embeddings": 64,
    "torch_dtype": "float32",
    "use_cache": True,
    "vocab_size": VOCAB,
}

SILU = {"hidden_act": "silu"}
LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    **SILU,
    "attention_bias": False,
    "mlp_bias": False,
    "pretraining_tp": 1,
    "rms_norm_eps": 1e-5,
    "rope_scaling": None,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
}
# The config contains a sliding window, which is not used.
QWEN2 = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    **SILU,
    "max_window_layers": 1,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000000.0,
    "sliding_window": 8,
    "tie_word_embeddings": True,
    "use_sliding_window": False,
}
QWEN3 = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    **SILU,
    "attention_bias": False,
    "max_window_layers": 1,
    "rms_norm_eps": 1e-6,
    "rope_scaling": None,
    "rope_theta": 1000000,
    "sliding_window": None,
    "tie_word_embeddings": True,
    "use_sliding_window": False,
}
# As in the released configs of Gemma, no field states that the embeddings are tied.
GEMMA = {
    "attention_bias": False,
    "cache_implementation": "hybrid",
    "hidden_activation": "gelu_pytorch_tanh",
    "pad_token_id": 0,
    "rms_norm_eps": 1e-6,
    "sliding_window": 8,
}
GEMMA3 = {
    "architectures": ["Gemma3ForCausalLM"],
    "model_type": "gemma3_text",
    **GEMMA,
    "attn_logit_softcapping": None,
    "final_logit_softcapping": None,
    "rope_local_base_freq": 10000,
    "rope_theta": 1000000,
}
GEMMA2 = {
    "architectures": ["Gemma2ForCausalLM"],
    "model_type": "gemma2",
    **GEMMA,
    "attn_logit_softcapping": 50.0,
    "final_logit_softcapping": 30.0,
    "hidden_act": "gelu_pytorch_tanh",
    "rope_theta": 10000.0,
}
MISTRAL = {
    "architectures": ["MistralForCausalLM"],
    "model_type": "mistral",
    **SILU,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "sliding_window": 8,
    "tie_word_embeddings": False,
}
PHI3 = {
    "architectures": ["Phi3ForCausalLM"],
    "model_type": "phi3",
    **SILU,
    "attention_bias": False,
    "embd_pdrop": 0.0,
    "pad_token_id": 2,
    "resid_pdrop": 0.0,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
}
SMOLLM3 = {
    "architectures": ["SmolLM3ForCausalLM"],
    "model_type": "smollm3",
    **SILU,
    "attention_bias": False,
    "max_window_layers": 28,
    "mlp_bias": False,
    "pad_token_id": 4,
    "pretraining_tp": 2,
    "rms_norm_eps": 1e-6,
    "rope_scaling": None,
    "rope_theta": 5000000.0,
    "sliding_window": None,
    "tie_word_embeddings": True,
    "use_sliding_window": False,
}
OLMO2 = {
    "architectures": ["Olmo2ForCausalLM"],
    "model_type": "olmo2",
    **SILU,
    "attention_bias": False,
    "pad_token_id": 1,
    "rms_norm_eps": 1e-6,
    "rope_scaling": None,
    "rope_theta": 500000,
    "tie_word_embeddings": False,
}
GRANITE = {
    "architectures": ["GraniteForCausalLM"],
    "model_type": "granite",
    **SILU,
    "attention_bias": False,
    "embedding_multiplier": 12.0,
    "logits_scaling": 8.0,
    "mlp_bias": False,
    "pad_token_id": 0,
    "residual_multiplier": 0.22,
    "rms_norm_eps": 1e-5,
    "rope_scaling": None,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
}
MIXTRAL = {
    "architectures": ["MixtralForCausalLM"],
    "model_type": "mixtral",
    **SILU,
    "num_experts_per_tok": 2,
    "num_local_experts": 4,
    "output_router_logits": False,
    "rms_norm_eps": 1e-5,
    "rope_theta": 1000000.0,
    "router_aux_loss_coef": 0.02,
    "sliding_window": None,
    "tie_word_embeddings": False,
}
QWEN3_MOE = {
    **QWEN3,
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "norm_topk_prob": True,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "output_router_logits": False,
    "rope_theta": 1000000.0,
    "router_aux_loss_coef": 0.001,
    "tie_word_embeddings": False,
}
GPT_OSS = {
    "architectures": ["GptOssForCausalLM"],
    "model_type": "gpt_oss",
    **SILU,
    "attention_bias": True,
    "experts_per_token": 2,
    "initial_context_length": 16,
    "num_experts_per_tok": 2,
    "num_local_experts": 4,
    "output_router_logits": False,
    "pad_token_id": 3,
    "rms_norm_eps": 1e-5,
    "rope_scaling": {
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "factor": 4.0,
        "original_max_position_embeddings": 16,
        "rope_type": "yarn",
        "truncate": False,
    },
    "rope_theta": 150000,
    "router_aux_loss_coef": 0.9,
    "sliding_window": 8,
    "tie_word_embeddings": False,
}
ALTERNATING = ["sliding_attention", "full_attention"]

# NAME: (fields of both sizes, {HIDDEN: additional fields of this size}).
MODELS = {
    "llama": (LLAMA, {64: {}, 576: {}}),
    "llama3": (
        {
            **LLAMA,
            "max_position_embeddings": 128,
            "rope_scaling": {
                "factor": 8.0,
                "high_freq_factor": 4.0,
                "low_freq_factor": 1.0,
                "original_max_position_embeddings": 16,
                "rope_type": "llama3",
            },
            "rope_theta": 500000.0,
            "tie_word_embeddings": True,
        },
        {64: {"head_dim": 16}, 576: {"head_dim": 64}},
    ),
    "qwen2": (QWEN2, {64: {}, 576: {}}),
    "qwen3": (QWEN3, {64: {"head_dim": 32}, 576: {"head_dim": 64}}),
    "gemma3": (
        GEMMA3,
        {
            64: {
                "head_dim": 32,
                "num_hidden_layers": 7,
                "query_pre_attn_scalar": 32,
                "rope_scaling": None,
                "sliding_window_pattern": 6,
            },
            576: {
                "head_dim": 64,
                "layer_types": ALTERNATING,
                "query_pre_attn_scalar": 64,
                "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
            },
        },
    ),
    "gemma2": (
        GEMMA2,
        {
            # A cap so low that the small scores reach it.
            64: {"attn_logit_softcapping": 2.0, "head_dim": 32, "query_pre_attn_scalar": 24},
            576: {"head_dim": 64, "query_pre_attn_scalar": 64},
        },
    ),
    "mistral": (MISTRAL, {64: {}, 576: {}}),
    "phi3": (
        PHI3,
        {
            64: {
                "original_max_position_embeddings": 64,
                "rope_scaling": None,
                "sliding_window": 8,
                "tie_word_embeddings": False,
            },
            576: {
                "original_max_position_embeddings": 16,
                "partial_rotary_factor": 0.75,
                "rope_scaling": {
                    "long_factor": [1 + i / 4 for i in range(24)],
                    "short_factor": [1 + i / 32 for i in range(24)],
                    "type": "longrope",
                },
                "sliding_window": None,
                "tie_word_embeddings": True,
            },
        },
    ),
    "smollm3": (
        SMOLLM3,
        {
            64: {"layer_types": ["full_attention"] * 4, "no_rope_layer_interval": 4, "no_rope_layers": [1, 1, 1, 0]},
            576: {"layer_types": ["full_attention"] * 2, "no_rope_layer_interval": 2, "no_rope_layers": [1, 0]},
        },
    ),
    "olmo2": (OLMO2, {64: {}, 576: {}}),
    # Only the layers with full attention have scaled frequencies.
    "olmo3": (
        {
            **OLMO2,
            "architectures": ["Olmo3ForCausalLM"],
            "model_type": "olmo3",
            "rope_scaling": {"factor": 4.0, "original_max_position_embeddings": 16, "rope_type": "yarn"},
            "sliding_window": 8,
        },
        {64: {"layer_types": ["sliding_attention"] * 3 + ["full_attention"]}, 576: {"layer_types": ALTERNATING}},
    ),
    "granite": (GRANITE, {64: {"attention_multiplier": 1.0, "embedding_multiplier": 1.0}, 576: {"attention_multiplier": 0.015625}}),
    "mixtral": (MIXTRAL, {64: {}, 576: {}}),
    "qwen3-moe": (
        QWEN3_MOE,
        {64: {"head_dim": 32, "moe_intermediate_size": 32}, 576: {"head_dim": 64, "moe_intermediate_size": 96}},
    ),
    # Such small weights never reach the limit of the released models, 7.0. They reach 0.5.
    "gpt-oss": (
        GPT_OSS,
        {
            64: {"head_dim": 16, "layer_types": ALTERNATING * 2, "swiglu_limit": 7.0},
            576: {"head_dim": 64, "layer_types": ALTERNATING, "swiglu_limit": 0.5},
        },
    ),
    "llama-linear": ({**LLAMA, "rope_scaling": {"factor": 4.0, "rope_type": "linear"}}, {64: {}}),
    "qwen2-yarn": (
        {
            **QWEN2,
            "rope_scaling": {"factor": 4.0, "original_max_position_embeddings": 16, "rope_type": "yarn"},
        },
        {64: {}, 576: {}},
    ),
}


def config_of(name, hidden):
    common, by_size = MODELS[name]
    return dict(sorted({**COMMON, **SIZES[hidden], **common, **by_size[hidden]}.items()))


def shapes(config):
    """Returns the shapes of a checkpoint's tensors by name, with the names of released checkpoints."""
    kind = config["model_type"]
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    head = config.get("head_dim", hidden // config["num_attention_heads"])
    q, kv = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    tensors = {"model.embed_tokens.weight": [VOCAB, hidden]}

    def mlp(prefix, inner, names=("gate_proj", "up_proj", "down_proj")):
        gate, up, down = (f"{prefix}.{name}.weight" for name in names)
        tensors.update({gate: [inner, hidden], up: [inner, hidden], down: [hidden, inner]})

    for index in range(config["num_hidden_layers"]):
        layer = f"model.layers.{index}"
        attention = f"{layer}.self_attn"
        if kind == "phi3":
            tensors[f"{attention}.qkv_proj.weight"] = [q + 2 * kv, hidden]
        else:
            for name, size in ("q", q), ("k", kv), ("v", kv):
                tensors[f"{attention}.{name}_proj.weight"] = [size, hidden]
                if kind in ("qwen2", "gpt_oss"):
                    tensors[f"{attention}.{name}_proj.bias"] = [size]
        tensors[f"{attention}.o_proj.weight"] = [hidden, q]
        if kind == "gpt_oss":
            tensors[f"{attention}.o_proj.bias"] = [hidden]
            tensors[f"{attention}.sinks"] = [config["num_attention_heads"]]
        if kind in ("qwen3", "qwen3_moe", "gemma3_text"):
            tensors[f"{attention}.q_norm.weight"] = [head]
            tensors[f"{attention}.k_norm.weight"] = [head]
        if kind in ("olmo2", "olmo3"):
            tensors[f"{attention}.q_norm.weight"] = [q]
            tensors[f"{attention}.k_norm.weight"] = [kv]

        norms = ["input_layernorm", "post_attention_layernorm"]
        if kind in ("gemma2", "gemma3_text"):
            norms += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
        if kind in ("olmo2", "olmo3"):
            norms = ["post_attention_layernorm", "post_feedforward_layernorm"]
        for norm in norms:
            tensors[f"{layer}.{norm}.weight"] = [hidden]

        if kind == "phi3":
            tensors[f"{layer}.mlp.gate_up_proj.weight"] = [2 * inner, hidden]
            tensors[f"{layer}.mlp.down_proj.weight"] = [hidden, inner]
        elif kind == "mixtral":
            experts = config["num_local_experts"]
            tensors[f"{layer}.block_sparse_moe.gate.weight"] = [experts, hidden]
            for expert in range(experts):
                mlp(f"{layer}.block_sparse_moe.experts.{expert}", inner, ("w1", "w3", "w2"))
        elif kind == "qwen3_moe":
            experts = config["num_experts"]
            tensors[f"{layer}.mlp.gate.weight"] = [experts, hidden]
            for expert in range(experts):
                mlp(f"{layer}.mlp.experts.{expert}", config["moe_intermediate_size"])
        elif kind == "gpt_oss":
            experts = config["num_local_experts"]
            tensors[f"{layer}.mlp.router.weight"] = [experts, hidden]
            tensors[f"{layer}.mlp.router.bias"] = [experts]
            tensors[f"{layer}.mlp.experts.gate_up_proj"] = [experts, hidden, 2 * inner]
            tensors[f"{layer}.mlp.experts.gate_up_proj_bias"] = [experts, 2 * inner]
            tensors[f"{layer}.mlp.experts.down_proj"] = [experts, inner, hidden]
            tensors[f"{layer}.mlp.experts.down_proj_bias"] = [experts, hidden]
        else:
            mlp(f"{layer}.mlp", inner)

    tensors["model.norm.weight"] = [hidden]
    if not config.get("tie_word_embeddings", True):
        tensors["lm_head.weight"] = [VOCAB, hidden]
    return tensors


def weights(name, shape, kind):
    """Returns the elements of a tensor. A hash of its name seeds splitmix64; the upper 24 bits give u in [-1, 1)."""
    seed = 0xCBF29CE484222325
    for byte in name.encode():
        seed = (seed ^ byte) * 0x100000001B3 % 2**64
    z = np.uint64(seed) + np.arange(np.prod(shape), dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    u = (z >> np.uint64(40)).astype(np.float64) / 2**23 - 1

    if name.endswith("embed_tokens.weight"):
        scaled = u
    elif len(shape) > 1:
        # The scale is 2^-k, where k is log2(sqrt(last dimension)), rounded half up.
        scaled = u / 2 ** (shape[-1].bit_length() // 2)
    elif name.endswith("norm.weight") and kind not in ("gemma2", "gemma3_text"):
        scaled = 1 + u / 4  # The only value here that is rounded to a float32.
    else:
        scaled = u / 4
    return scaled.astype(np.float32).reshape(shape)


def load(config):
    """Writes a checkpoint for a config and loads it as a model."""
    tensors = {name: weights(name, shape, config["model_type"]) for name, shape in shapes(config).items()}
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "config.json").write_text(json.dumps(config))
        safetensors.numpy.save_file(tensors, f"{folder}/model.safetensors", {"format": "pt"})
        model, report = transformers.AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=torch.float32,
            attn_implementation="eager",
            experts_implementation="eager",
            output_loading_info=True,
        )
    if any(report.values()):
        raise SystemExit(f"{config['model_type']}: not loaded as it is: {report}")
    if type(model).__name__ != config["architectures"][0]:
        raise SystemExit(f"{config['model_type']}: loaded as {type(model).__name__}")
    return model.eval()


@torch.no_grad()
def run(model):
    """Returns the input of the first layer, the output of each layer, and the logits, at all positions."""
    streams = []

    def enters(_, arguments, named):
        streams.append(arguments[0] if arguments else named["hidden_states"])

    def leaves(_, arguments, output):
        streams.append(output[0] if isinstance(output, tuple) else output)

    layers = model.model.layers
    hooks = [layers[0].register_forward_pre_hook(enters, with_kwargs=True)]
    hooks += [layer.register_forward_hook(leaves) for layer in layers]
    logits = model(input_ids=torch.tensor([TOKENS])).logits
    for hook in hooks:
        hook.remove()
    embedded, *left = (stream[0].numpy().copy() for stream in streams)
    return embedded, left, logits[0].numpy()


def rows(stream):
    """Returns the rows at `POSITIONS` as JSON, with the shortest digits that identify each float32."""
    assert np.isfinite(stream).all()
    texts = [[str(number) for number in stream[position]] for position in POSITIONS]
    assert (np.array(texts).astype(np.float64).astype(np.float32) == stream[POSITIONS]).all()
    return "[" + ",".join(f"[{','.join(row)}]" for row in texts) + "]"


def main():
    folder = pathlib.Path(__file__).parent
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    for name in sys.argv[1:] or MODELS:
        for hidden in MODELS[name][1]:
            config = config_of(name, hidden)
            embedded, layers, logits = run(load(config))
            golden = {
                "versions": versions,
                "config": config,
                "tensors": shapes(config),
                "tokens": TOKENS,
                "positions": POSITIONS,
            }
            golden = {key: json.dumps(value, separators=(",", ":")) for key, value in golden.items()}
            golden["embedded"] = rows(embedded)
            golden["layers"] = "[" + ",".join(map(rows, layers)) + "]"
            golden["logits"] = rows(logits)
            lines = ",\n".join(f'"{key}":{value}' for key, value in golden.items())
            path = folder / f"{name}-{hidden}.json"
            path.write_text(f"{{\n{lines}\n}}\n")
            print(path.name, path.stat().st_size)


if __name__ == "__main__":
    main()
