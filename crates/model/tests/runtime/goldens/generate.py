"""Writes NAME-HIDDEN.json next to this file: results of Hugging Face transformers for tiny random decoder models.
Models with a head for drafts are written to the folder `drafts`.

    pip install torch==2.15.0 transformers==5.23.0 safetensors numpy
    python3 generate.py [NAME ...]

Without names, all models are generated. A file contains the `config.json` of a checkpoint, the names and shapes of its
tensors, and the input tokens. For a few positions it contains the residual stream before the first layer and after each
layer (before the final norm), and the logits. All results are computed in float32 on a CPU, with eager attention and
experts, in one pass over all tokens. `check` compares the pass with a run token by token.

The heads for drafts have results at positions of their own: logits after one draft and after a second one. transformers
does not compute these heads, so `draft` puts them together from its layers.

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
# Models with a recurrent state get more tokens, so that a second chunk of 64 tokens follows the first one.
LONG_TOKENS = [(t * t * 7 + 13 * t + 5) % VOCAB for t in range(100)]
LONG_POSITIONS = [0, 16, 64, 99]

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

LONG = {"max_position_embeddings": 128}
LFM2 = {
    "architectures": ["Lfm2ForCausalLM"],
    "model_type": "lfm2",
    **LONG,
    "conv_L_cache": 3,
    "conv_bias": False,
    "norm_eps": 1e-5,
    "num_hidden_layers": 6,
    "pad_token_id": 0,
    "rope_theta": 1000000.0,
}
# The widths of the value heads and key heads are equal, because GGUF files have one key for both.
QWEN3_NEXT = {
    "architectures": ["Qwen3NextForCausalLM"],
    "model_type": "qwen3_next",
    **LONG,
    **SILU,
    "attention_bias": False,
    "full_attention_interval": 3,
    "head_dim": 32,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 16,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_value_head_dim": 16,
    "num_hidden_layers": 6,
    "partial_rotary_factor": 0.25,
    "rms_norm_eps": 1e-6,
    "rope_scaling": None,
    "rope_theta": 10000000,
    "tie_word_embeddings": False,
    "use_sliding_window": False,
}
# Numbers and sizes of experts avoid positions where two experts have nearly equal scores.
QWEN3_NEXT_EXPERTS = {
    "moe_intermediate_size": 32,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "output_router_logits": False,
    "router_aux_loss_coef": 0.001,
    "shared_expert_intermediate_size": 48,
}
QWEN3_5 = {
    **{key: QWEN3_NEXT[key] for key in QWEN3_NEXT if not key.startswith(("partial", "rope", "use_sliding"))},
    "architectures": ["Qwen3_5ForCausalLM"],
    "model_type": "qwen3_5_text",
    "attn_output_gate": True,
    "layer_types": ["linear_attention", "linear_attention", "full_attention"] * 2,
    "mamba_ssm_dtype": "float32",
    "output_gate_type": "swish",
    "rope_parameters": {
        "mrope_interleaved": True,
        "mrope_section": [2, 1, 1],
        "partial_rotary_factor": 0.25,
        "rope_theta": 10000000,
        "rope_type": "default",
    },
    "tie_word_embeddings": True,
}
GEMMA4 = {
    "architectures": ["Gemma4ForCausalLM"],
    "model_type": "gemma4_text",
    "attention_bias": False,
    "attention_k_eq_v": False,
    "enable_moe_block": False,
    "final_logit_softcapping": 30.0,
    "global_head_dim": 32,
    "head_dim": 16,
    "hidden_activation": "gelu_pytorch_tanh",
    "hidden_size_per_layer_input": 0,
    "layer_types": ["sliding_attention", "sliding_attention", "full_attention"] * 2,
    "moe_intermediate_size": None,
    "num_experts": None,
    "num_global_key_value_heads": None,
    "num_hidden_layers": 6,
    "num_kv_shared_layers": 0,
    "pad_token_id": 0,
    "rms_norm_eps": 1e-6,
    "rope_parameters": {
        "full_attention": {"partial_rotary_factor": 0.25, "rope_theta": 1000000.0, "rope_type": "proportional"},
        "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"},
    },
    "sliding_window": 8,
    "tie_word_embeddings": True,
    "top_k_experts": None,
    "use_bidirectional_attention": None,
    "use_double_wide_mlp": False,
    "vocab_size_per_layer_input": VOCAB,
}
MINISTRAL3 = {
    "architectures": ["Ministral3ForCausalLM"],
    "model_type": "ministral3",
    **SILU,
    "head_dim": 32,
    "rms_norm_eps": 1e-5,
    "rope_parameters": {
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "factor": 4.0,
        "llama_4_scaling_beta": 0.1,
        "mscale": 1.0,
        "mscale_all_dim": 1.0,
        "original_max_position_embeddings": 16,
        "rope_theta": 1000000.0,
        "rope_type": "yarn",
        "type": "yarn",
    },
    "sliding_window": None,
    "tie_word_embeddings": False,
}
# Models inside multimodal ones. The common fields are in `text_config`.
MISTRAL3 = {
    "architectures": ["Mistral3ForConditionalGeneration"],
    "model_type": "mistral3",
    "image_token_index": 10,
    "multimodal_projector_bias": False,
    "projector_hidden_act": "gelu",
    "spatial_merge_size": 2,
    "text_config": {
        "model_type": "mistral",
        **SILU,
        "head_dim": 32,
        "rms_norm_eps": 1e-5,
        "rope_theta": 1000000000.0,
        "sliding_window": None,
        "tie_word_embeddings": False,
    },
    "tie_word_embeddings": False,
    "torch_dtype": "float32",
    "vision_config": {
        "model_type": "pixtral",
        "head_dim": 8,
        "hidden_act": "silu",
        "hidden_size": 16,
        "image_size": 28,
        "initializer_range": 0.02,
        "intermediate_size": 32,
        "num_attention_heads": 2,
        "num_channels": 3,
        "num_hidden_layers": 1,
        "patch_size": 14,
        "rope_theta": 10000.0,
    },
    "vision_feature_layer": -1,
}
QWEN3_VL = {
    "architectures": ["Qwen3VLForConditionalGeneration"],
    "model_type": "qwen3_vl",
    "image_token_id": 90,
    "text_config": {
        "model_type": "qwen3_vl_text",
        **SILU,
        "attention_bias": False,
        "head_dim": 32,
        "rms_norm_eps": 1e-6,
        "rope_scaling": {"mrope_interleaved": True, "mrope_section": [6, 5, 5], "rope_type": "default"},
        "rope_theta": 5000000,
        "tie_word_embeddings": True,
    },
    "tie_word_embeddings": True,
    "torch_dtype": "float32",
    "video_token_id": 91,
    "vision_config": {
        "model_type": "qwen3_vl",
        "deepstack_visual_indexes": [0],
        "depth": 1,
        "hidden_act": "gelu_pytorch_tanh",
        "hidden_size": 16,
        "in_channels": 3,
        "initializer_range": 0.02,
        "intermediate_size": 32,
        "num_heads": 2,
        "num_position_embeddings": 16,
        "out_hidden_size": 64,
        "patch_size": 4,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
    },
    "vision_end_token_id": 93,
    "vision_start_token_id": 92,
}
YARN = {"beta_fast": 32, "beta_slow": 1, "factor": 4, "original_max_position_embeddings": 16, "type": "yarn"}
GLM4_MOE = {
    "architectures": ["Glm4MoeForCausalLM"],
    "model_type": "glm4_moe",
    **SILU,
    "attention_bias": True,
    "first_k_dense_replace": 2,
    "head_dim": 32,
    "moe_intermediate_size": 32,
    "n_group": 1,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "norm_topk_prob": True,
    "num_experts_per_tok": 3,
    "num_nextn_predict_layers": 0,
    "pad_token_id": 3,
    "partial_rotary_factor": 0.5,
    "rms_norm_eps": 1e-5,
    "rope_scaling": None,
    "rope_theta": 1000000,
    "routed_scaling_factor": 2.5,
    "tie_word_embeddings": False,
    "topk_group": 1,
    "use_qk_norm": True,
}
MINIMAX_M2 = {
    "architectures": ["MiniMaxM2ForCausalLM"],
    "model_type": "minimax_m2",
    **SILU,
    "attn_type_list": [1] * 4,
    "head_dim": 32,
    "intermediate_size": 32,
    "num_experts_per_tok": 3,
    "num_local_experts": 8,
    "qk_norm_type": "per_layer",
    "rms_norm_eps": 1e-6,
    "rope_theta": 5000000,
    "rotary_dim": 16,
    "router_aux_loss_coef": 0.001,
    "scoring_func": "sigmoid",
    "shared_intermediate_size": 0,
    "tie_word_embeddings": False,
    "use_qk_norm": True,
    "use_routing_bias": True,
}
# Latent attention. Values are wider than the part of the keys without rotation.
LATENT = {
    **SILU,
    "attention_bias": False,
    "first_k_dense_replace": 2,
    "kv_lora_rank": 32,
    "moe_intermediate_size": 32,
    "moe_layer_freq": 1,
    "n_group": 1,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "norm_topk_prob": True,
    "num_experts_per_tok": 3,
    "num_key_value_heads": 4,
    "q_lora_rank": 48,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
    "topk_group": 1,
    "v_head_dim": 24,
}
DEEPSEEK_V2 = {
    **LATENT,
    "architectures": ["DeepseekV2ForCausalLM"],
    "model_type": "deepseek_v2",
    "n_shared_experts": 2,
    "norm_topk_prob": False,
    "rope_scaling": {**YARN, "mscale": 0.707, "mscale_all_dim": 0.707},
    "rope_theta": 10000,
    "scoring_func": "softmax",
}
DEEPSEEK_V3 = {
    **LATENT,
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "n_group": 4,
    "n_routed_experts": 16,
    "num_nextn_predict_layers": 0,
    "rope_scaling": {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0},
    "rope_theta": 10000,
    "routed_scaling_factor": 2.5,
    "scoring_func": "sigmoid",
    "topk_group": 2,
    "topk_method": "noaux_tc",
}
GLM4_MOE_LITE = {
    **LATENT,
    "architectures": ["Glm4MoeLiteForCausalLM"],
    "model_type": "glm4_moe_lite",
    "num_experts_per_tok": 2,
    "mlp_layer_types": ["dense", "dense", "sparse", "sparse"],
    "num_nextn_predict_layers": 0,
    "pad_token_id": 3,
    "partial_rotary_factor": 1.0,
    "rms_norm_eps": 1e-5,
    "rope_scaling": None,
    "rope_theta": 1000000,
    "routed_scaling_factor": 1.8,
    "topk_method": "noaux_tc",
}
MISTRAL4 = {
    **LATENT,
    "architectures": ["Mistral4ForCausalLM"],
    "model_type": "mistral4",
    "first_k_dense_replace": 0,
    "pad_token_id": 11,
    "rope_interleave": True,
    "rope_parameters": {**MINISTRAL3["rope_parameters"], "partial_rotary_factor": 8 / 24, "rope_theta": 10000.0},
    "routed_scaling_factor": 1.0,
}
GRANITE_HYBRID = {
    "architectures": ["GraniteMoeHybridForCausalLM"],
    "model_type": "granitemoehybrid",
    **LONG,
    **SILU,
    "attention_bias": False,
    "attention_multiplier": 0.5,
    "embedding_multiplier": 2,
    "layer_types": ["mamba", "mamba", "attention"] * 2,
    "logits_scaling": 6,
    "mamba_chunk_size": 16,
    "mamba_conv_bias": True,
    "mamba_d_conv": 4,
    "mamba_d_head": 16,
    "mamba_d_state": 16,
    "mamba_expand": 2,
    "mamba_n_groups": 1,
    "mamba_n_heads": 8,
    "mamba_proj_bias": False,
    "normalization_function": "rmsnorm",
    "num_hidden_layers": 6,
    "output_router_logits": False,
    "pad_token_id": 0,
    "position_embedding_type": "nope",
    "residual_multiplier": 0.5,
    "rms_norm_eps": 1e-5,
    "rope_scaling": None,
    "rope_theta": 10000,
    "router_aux_loss_coef": 0.0001,
    "tie_word_embeddings": True,
}
NEMOTRON_H = {
    "architectures": ["NemotronHForCausalLM"],
    "model_type": "nemotron_h",
    **LONG,
    "attention_bias": False,
    "chunk_size": 16,
    "conv_kernel": 4,
    "expand": 2,
    "head_dim": 32,
    "hidden_dropout": 0.0,
    "hybrid_override_pattern": "ME*-ME*-",
    "layer_norm_epsilon": 1e-5,
    "mamba_head_dim": 16,
    "mamba_hidden_act": "silu",
    "mamba_num_heads": 8,
    "mamba_proj_bias": False,
    "mlp_bias": False,
    "mlp_hidden_act": "relu2",
    "moe_intermediate_size": 32,
    "moe_shared_expert_intermediate_size": 48,
    "n_group": 1,
    "n_groups": 2,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "norm_eps": 1e-5,
    "norm_topk_prob": True,
    "num_experts_per_tok": 3,
    "num_hidden_layers": 8,
    "pad_token_id": 0,
    "residual_in_fp32": False,
    "routed_scaling_factor": 2.5,
    "sliding_window": None,
    "ssm_state_size": 16,
    "tie_word_embeddings": False,
    "topk_group": 1,
    "use_bias": False,
    "use_conv_bias": True,
}
SEED_OSS = {
    "architectures": ["SeedOssForCausalLM"],
    "model_type": "seed_oss",
    **SILU,
    "attention_bias": True,
    "attention_out_bias": False,
    "head_dim": 32,
    "mlp_bias": False,
    "pad_token_id": 1,
    "residual_dropout": 0.0,
    "rms_norm_eps": 1e-6,
    "rope_scaling": {"rope_type": "default"},
    "rope_theta": 10000000.0,
    "tie_word_embeddings": False,
}
ERNIE4_5 = {
    "architectures": ["Ernie4_5ForCausalLM"],
    "model_type": "ernie4_5",
    **SILU,
    "head_dim": 32,
    "pad_token_id": 0,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0,
    "tie_word_embeddings": True,
    "use_bias": False,
}
ERNIE4_5_MOE = {
    **{key: ERNIE4_5[key] for key in ERNIE4_5 if key != "head_dim"},
    "architectures": ["Ernie4_5_MoeForCausalLM"],
    "model_type": "ernie4_5_moe",
    "moe_intermediate_size": 32,
    "moe_k": 3,
    "moe_layer_end_index": 3,
    "moe_layer_interval": 1,
    "moe_layer_start_index": 2,
    "moe_num_experts": 8,
    "moe_num_shared_experts": 2,
}
EXAONE4 = {
    "architectures": ["Exaone4ForCausalLM"],
    "model_type": "exaone4",
    **SILU,
    "head_dim": 32,
    "layer_types": (["sliding_attention"] * 3 + ["full_attention"]) * 2,
    "num_hidden_layers": 8,
    "pad_token_id": 0,
    "rms_norm_eps": 1e-5,
    "rope_scaling": {
        "factor": 16.0,
        "high_freq_factor": 4.0,
        "low_freq_factor": 1.0,
        "original_max_position_embeddings": 16,
        "rope_type": "llama3",
    },
    "rope_theta": 1000000,
    "sliding_window": 8,
    "sliding_window_pattern": "LLLG",
    "tie_word_embeddings": False,
}
HUNYUAN = {
    "architectures": ["HunYuanDenseV1ForCausalLM"],
    "model_type": "hunyuan_v1_dense",
    **SILU,
    "attention_bias": False,
    "head_dim": 32,
    "mlp_bias": False,
    "pad_token_id": 0,
    "rms_norm_eps": 1e-5,
    "rope_scaling": {
        "alpha": 1000.0,
        "beta_fast": 32,
        "beta_slow": 1,
        "factor": 1.0,
        "mscale": 1.0,
        "mscale_all_dim": 0.0,
        "type": "dynamic",
    },
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "use_cla": False,
    "use_qk_norm": True,
}
COHERE2 = {
    "architectures": ["Cohere2ForCausalLM"],
    "model_type": "cohere2",
    **SILU,
    "attention_bias": False,
    "layer_norm_eps": 1e-5,
    "layer_switch": 4,
    "logit_scale": 0.25,
    "num_hidden_layers": 8,
    "order_of_interleaved_layers": "local_attn_first",
    "pad_token_id": 0,
    "position_embedding_type": "rope_gptj",
    "rope_scaling": None,
    "rope_theta": 50000,
    "rotary_pct": 1.0,
    "sliding_window": 8,
    "sliding_window_pattern": 4,
    "use_embedding_sharing": True,
    "use_gated_activation": True,
    "use_parallel_block": True,
    "use_parallel_embedding": False,
    "use_qk_norm": False,
}
GLM4 = {
    "architectures": ["Glm4ForCausalLM"],
    "model_type": "glm4",
    **SILU,
    "attention_bias": True,
    "head_dim": 32,
    "pad_token_id": 3,
    "partial_rotary_factor": 0.5,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
}
QWEN2_MOE = {
    **QWEN2,
    "architectures": ["Qwen2MoeForCausalLM"],
    "model_type": "qwen2_moe",
    "decoder_sparse_step": 1,
    "moe_intermediate_size": 32,
    "norm_topk_prob": False,
    "num_experts": 8,
    "num_experts_per_tok": 3,
    "output_router_logits": False,
    "router_aux_loss_coef": 0.001,
    "shared_expert_intermediate_size": 48,
    "tie_word_embeddings": False,
}
OLMOE = {
    "architectures": ["OlmoeForCausalLM"],
    "model_type": "olmoe",
    **SILU,
    "attention_bias": False,
    "clip_qkv": None,
    "intermediate_size": 32,
    "norm_topk_prob": False,
    "num_experts": 8,
    "num_experts_per_tok": 3,
    "num_key_value_heads": 4,
    "output_router_logits": False,
    "pad_token_id": 1,
    "rms_norm_eps": 1e-5,
    "rope_scaling": None,
    "rope_theta": 10000.0,
    "router_aux_loss_coef": 0.01,
    "tie_word_embeddings": False,
}

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
    # With `block_auto_adjust_ff_dim`, the feed-forward width is 128.
    "lfm2": (
        {
            **LFM2,
            "block_auto_adjust_ff_dim": True,
            "block_ff_dim": 160,
            "block_ffn_dim_multiplier": 1.0,
            "block_multiple_of": 32,
            "full_attn_idxs": [2, 4],
            "intermediate_size": 160,
            "tie_embedding": True,
        },
        {64: {}},
    ),
    "lfm2-moe": (
        {
            **LFM2,
            "architectures": ["Lfm2MoeForCausalLM"],
            "model_type": "lfm2_moe",
            "layer_types": ["conv", "conv", "full_attention"] * 2,
            "moe_intermediate_size": 32,
            "norm_topk_prob": True,
            "num_dense_layers": 2,
            "num_experts": 8,
            "num_experts_per_tok": 3,
            "routed_scaling_factor": 1.5,
            "tie_word_embeddings": True,
            "use_expert_bias": True,
        },
        {64: {}},
    ),
    "qwen3-next": (
        {
            **QWEN3_NEXT,
            **QWEN3_NEXT_EXPERTS,
            "decoder_sparse_step": 1,
            "mlp_only_layers": [],
            "moe_intermediate_size": 48,
            "norm_topk_prob": True,
            "num_experts_per_tok": 3,
            "shared_expert_intermediate_size": 32,
        },
        {64: {}},
    ),
    "qwen3.5": (QWEN3_5, {64: {}}),
    "qwen3.5-moe": (
        {
            **QWEN3_5,
            **QWEN3_NEXT_EXPERTS,
            "architectures": ["Qwen3_5MoeForCausalLM"],
            "model_type": "qwen3_5_moe_text",
            "tie_word_embeddings": False,
        },
        {64: {}},
    ),
    # Per-layer embeddings, and three layers that read the keys and values of earlier layers.
    "gemma4-e": (
        {**GEMMA4, "hidden_size_per_layer_input": 16, "num_kv_shared_layers": 3, "use_double_wide_mlp": True},
        {64: {}},
    ),
    # In the layers with full attention, the keys are the values.
    "gemma4": ({**GEMMA4, "attention_k_eq_v": True, "num_global_key_value_heads": 1}, {64: {}}),
    "gemma4-moe": (
        {
            **GEMMA4,
            "attention_k_eq_v": True,
            "enable_moe_block": True,
            "moe_intermediate_size": 32,
            "num_experts": 8,
            "num_global_key_value_heads": 1,
            "top_k_experts": 2,
        },
        {64: {}},
    ),
    "ministral3": (MINISTRAL3, {64: {}}),
    "mistral3": (MISTRAL3, {64: {}}),
    "qwen3-vl": (QWEN3_VL, {64: {}}),
    "glm4-moe": (GLM4_MOE, {64: {}}),
    "minimax-m2": (MINIMAX_M2, {64: {}}),
    "deepseek-v2-lite": (
        {**DEEPSEEK_V2, "q_lora_rank": None, "routed_scaling_factor": 1.0, "topk_method": "greedy"},
        {64: {}},
    ),
    "deepseek-v2": (
        {
            **DEEPSEEK_V2,
            "n_group": 4,
            "n_routed_experts": 16,
            "routed_scaling_factor": 4.0,
            "topk_group": 2,
            "topk_method": "group_limited_greedy",
        },
        {64: {}},
    ),
    "deepseek-v3": (DEEPSEEK_V3, {64: {}}),
    "glm4-moe-lite": (GLM4_MOE_LITE, {64: {}}),
    "mistral4": (MISTRAL4, {64: {}}),
    "granite-hybrid-moe": (
        {
            **GRANITE_HYBRID,
            "intermediate_size": 32,
            "num_experts_per_tok": 3,
            "num_local_experts": 8,
            "shared_intermediate_size": 48,
        },
        {64: {}},
    ),
    "granite-hybrid": (
        {
            **GRANITE_HYBRID,
            "mamba_n_groups": 2,
            "num_experts_per_tok": 0,
            "num_local_experts": 0,
            "position_embedding_type": "rope",
            "shared_intermediate_size": 96,
        },
        {64: {}},
    ),
    "nemotron-h": (NEMOTRON_H, {64: {}}),
    "nemotron-h-latent": (
        {
            **{key: NEMOTRON_H[key] for key in NEMOTRON_H if key != "hybrid_override_pattern"},
            "layers_block_type": ["mamba", "moe", "attention", "moe", "mamba", "mlp"],
            "moe_latent_size": 24,
            "n_group": 2,
            "num_hidden_layers": 6,
        },
        {64: {}},
    ),
    "seed-oss": (SEED_OSS, {64: {}}),
    "ernie4.5": (ERNIE4_5, {64: {}}),
    "ernie4.5-moe": (ERNIE4_5_MOE, {64: {}}),
    "exaone4": (EXAONE4, {64: {}}),
    # Without sliding windows, all layers have rotations.
    "exaone4-full": (
        {
            **EXAONE4,
            "layer_types": ["full_attention"] * 4,
            "num_hidden_layers": 4,
            "sliding_window": None,
            "sliding_window_pattern": None,
            "tie_word_embeddings": True,
        },
        {64: {}},
    ),
    "hunyuan": (HUNYUAN, {64: {}}),
    "cohere2": (COHERE2, {64: {}}),
    "glm4": (GLM4, {64: {}}),
    "qwen2-moe": (QWEN2_MOE, {64: {}}),
    "olmoe": (OLMOE, {64: {}}),
}


# Models with a head for drafts (multi-token prediction). The second one has different experts.
DRAFTS = {
    f"{name}-mtp": ({**common, "mtp_num_hidden_layers": 1}, by_size)
    for name, (common, by_size) in MODELS.items()
    if name in ("qwen3.5", "qwen3.5-moe")
}
MODELS |= DRAFTS


def config_of(name, hidden):
    common, by_size = MODELS[name]
    sizes = {**COMMON, **SIZES[hidden]}
    if "text_config" in common:
        text = {**sizes, **common["text_config"], **by_size[hidden]}
        return dict(sorted({**common, "text_config": dict(sorted(text.items()))}.items()))
    return dict(sorted({**sizes, **common, **by_size[hidden]}.items()))


def text_config(config):
    return config.get("text_config", config)


# Models with a recurrent state.
RECURRENT = {
    "granitemoehybrid",
    "lfm2",
    "lfm2_moe",
    "nemotron_h",
    "qwen3_5_moe_text",
    "qwen3_5_text",
    "qwen3_next",
}

# Models whose tensor names and shapes `shapes` states itself. The others have the names that transformers saves.
LISTED = {
    "gemma2",
    "gemma3_text",
    "gpt_oss",
    "granite",
    "llama",
    "mistral",
    "mixtral",
    "olmo2",
    "olmo3",
    "phi3",
    "qwen2",
    "qwen3",
    "qwen3_moe",
    "smollm3",
}


def class_of(config):
    return getattr(transformers, config["architectures"][0])


def saved_shapes(config):
    """Returns the shapes of the tensors that transformers saves, with the names of released checkpoints."""
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "config.json").write_text(json.dumps(config))
        settings = transformers.AutoConfig.from_pretrained(folder)
        class_of(config)(settings).save_pretrained(folder)
        saved = safetensors.numpy.load_file(f"{folder}/model.safetensors")
    tensors = {name: list(saved[name].shape) for name in sorted(saved)}
    if config["model_type"] == "qwen3_5_moe_text":
        # The released checkpoints have one tensor for all experts.
        experts, inner = config["num_experts"], config["moe_intermediate_size"]
        names = [name for name in tensors if ".mlp.experts." in name]
        for prefix in sorted({name.split(".mlp.experts.")[0] for name in names}):
            tensors[f"{prefix}.mlp.experts.gate_up_proj"] = [experts, 2 * inner, config["hidden_size"]]
            tensors[f"{prefix}.mlp.experts.down_proj"] = [experts, config["hidden_size"], inner]
        for name in names:
            del tensors[name]
    return tensors


def shapes(config):
    """Returns the shapes of a checkpoint's tensors by name, with the names of released checkpoints."""
    kind = config["model_type"]
    if kind not in LISTED:
        return saved_shapes(config)
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


# Models that add 1 to the weights of their norms.
SHIFTED = {"gemma", "gemma2", "gemma3_text", "qwen3_5_moe_text", "qwen3_5_text", "qwen3_next"}


def weights(name, shape, kind):
    """Returns the elements of a tensor. A hash of its name seeds splitmix64; the upper 24 bits give u in [-1, 1).

    The names distinguish embeddings, matrices, and three sorts of vectors. The router of Gemma 4 scales its inputs
    down, so its matrix is as large as an embedding. Biases and logits of attention sinks are small. `A_log` gives a
    state's decay per token. All other vectors are factors: weights of norms, `D`, `layer_scalar`, `router.scale` and
    `router.per_expert_scale`. They are near 1, or near 0 where 1 is added to them.
    """
    seed = 0xCBF29CE484222325
    for byte in name.encode():
        seed = (seed ^ byte) * 0x100000001B3 % 2**64
    z = np.uint64(seed) + np.arange(np.prod(shape), dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    u = (z >> np.uint64(40)).astype(np.float64) / 2**23 - 1

    if name.endswith(("embed_tokens.weight", "embeddings.weight", "router.proj.weight")):
        scaled = u
    elif len(shape) > 1:
        # The scale is 2^-k, where k is log2(sqrt(last dimension)), rounded half up.
        scaled = u / 2 ** (shape[-1].bit_length() // 2)
    elif name.endswith("A_log"):
        scaled = u - 2  # These values and the last ones are rounded to a float32. The others are exact.
    elif name.endswith(("bias", "sinks")) or (kind in SHIFTED and not name.endswith("linear_attn.norm.weight")):
        scaled = u / 4
    else:
        scaled = 1 + u / 4
    return scaled.astype(np.float32).reshape(shape)


def load(config, tensors):
    """Writes a checkpoint with tensors of the given shapes and loads it as a model."""
    kind = text_config(config)["model_type"]
    tensors = {name: weights(name, shape, kind) for name, shape in tensors.items()}
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "config.json").write_text(json.dumps(config))
        safetensors.numpy.save_file(tensors, f"{folder}/model.safetensors", {"format": "pt"})
        model, report = class_of(config).from_pretrained(
            folder,
            dtype=torch.float32,
            attn_implementation="eager",
            experts_implementation="eager",
            output_loading_info=True,
        )
    if any(report.values()):
        raise SystemExit(f"{config['model_type']}: not loaded as it is: {report}")
    return model.eval()


@torch.no_grad()
def run(model, tokens):
    """Returns the input of the first layer, the output of each layer, and the logits, at all positions."""
    streams = []

    def enters(_, arguments, named):
        streams.append(arguments[0] if arguments else named["hidden_states"])

    def leaves(_, arguments, output):
        streams.append(output[0] if isinstance(output, tuple) else output)

    layers = getattr(model.model, "language_model", model.model).layers
    hooks = [layers[0].register_forward_pre_hook(enters, with_kwargs=True)]
    hooks += [layer.register_forward_hook(leaves) for layer in layers]
    logits = model(input_ids=torch.tensor([tokens])).logits
    for hook in hooks:
        hook.remove()
    embedded, *left = (stream[0].numpy().copy() for stream in streams)
    return embedded, left, logits[0].numpy()


@torch.no_grad()
def check(model, tokens, layers, logits):
    """Checks that a run token by token has the same logits, and that the results are of use for tests.

    The tolerance is 1e-4. For logits above 50 it is 2e-6 of the largest.
    """
    cache, cached = None, []
    for token in tokens:
        output = model(input_ids=torch.tensor([[token]]), past_key_values=cache, use_cache=True)
        cache = output.past_key_values
        cached.append(output.logits[0, 0].numpy())
    error = np.abs(np.array(cached) - logits).max()
    sizes = [float(layer.std()) for layer in layers]
    changes = float(np.abs(np.diff(logits, axis=0)).mean())
    print(f"cached: {error:.1e}, streams: {min(sizes):.2f} to {max(sizes):.2f}, logits change by {changes:.2f}")
    assert error <= max(1e-4, 2e-6 * np.abs(logits).max())
    assert all(0.1 < size < 100 for size in sizes) and changes > 0.05


def head_shapes(tensors, hidden):
    """Returns the shapes of the tensors of a head for drafts, whose layer is like the model's last one."""
    last = max(int(name.split(".")[2]) for name in tensors if name.startswith("model.layers."))
    layer = {
        name.replace(f"model.layers.{last}.", "mtp.layers.0."): shape
        for name, shape in tensors.items()
        if name.startswith(f"model.layers.{last}.")
    }
    norms = ["pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"]
    return {**layer, **{f"mtp.{name}.weight": [hidden] for name in norms}, "mtp.fc.weight": [hidden, 2 * hidden]}


DRAFT_POSITIONS = [0, 1, 64, 98]


def drafted(tokens, position):
    """Returns a token that a sequence has as its second draft, after the token at `position + 1`."""
    return (3 * tokens[position + 1] + 1) % VOCAB


@torch.no_grad()
def draft(model, config, tensors, tokens):
    """Returns the logits of the head for drafts after one draft, and after a second one.

    Entry `p` of the head belongs to token `p + 1` and to the model's normalised output after token `p`. The one after a
    draft belongs to the next draft and to the head's own normalised output.
    """
    weight = {name: torch.tensor(weights(name, shape, config["model_type"])) for name, shape in tensors.items()}
    text, modules = model.model, type(model.model.norm)
    last = config["num_hidden_layers"] - 1

    def norm(name, x):
        module = modules(config["hidden_size"], eps=config["rms_norm_eps"])
        module.load_state_dict({"weight": weight[f"mtp.{name}.weight"]})
        return module(x)

    layer = type(text.layers[last])(model.config, last).eval()
    parts = {name.removeprefix("mtp.layers.0."): tensor for name, tensor in weight.items() if ".layers." in name}
    layer.load_state_dict(parts)

    def head(entries, states):
        """Computes the outputs for tokens and the states before them."""
        embedded = text.embed_tokens(torch.tensor(entries))
        joined = torch.cat([norm("pre_fc_norm_embedding", embedded), norm("pre_fc_norm_hidden", states)], dim=-1)
        x = (joined @ weight["mtp.fc.weight"].T)[None]
        count = len(entries)
        positions = torch.arange(count)[None]
        mask = torch.full((count, count), float("-inf")).triu(1)[None, None]
        rotation = text.rotary_emb(x, positions)
        out = layer(x, position_embeddings=rotation, attention_mask=mask, position_ids=positions)
        return norm("norm", (out[0] if isinstance(out, tuple) else out)[0])

    states = text(input_ids=torch.tensor([tokens])).last_hidden_state[0]
    first = head(tokens[1:], states[:-1])
    results = []
    for position in DRAFT_POSITIONS:
        entries = [*tokens[1 : position + 2], drafted(tokens, position)]
        second = head(entries, torch.cat([states[: position + 1], first[position : position + 1]]))[-1]
        results.append([model.lm_head(x).numpy() for x in (first[position], second)])
    return results


def rows(stream, positions=POSITIONS):
    """Returns the rows at some positions as JSON, with the shortest digits that identify each float32."""
    assert np.isfinite(stream).all()
    texts = [[str(number) for number in stream[position]] for position in positions]
    assert (np.array(texts).astype(np.float64).astype(np.float32) == stream[positions]).all()
    return "[" + ",".join(f"[{','.join(row)}]" for row in texts) + "]"


def main():
    folder = pathlib.Path(__file__).parent
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    for name in sys.argv[1:] or MODELS:
        for hidden in MODELS[name][1]:
            config = config_of(name, hidden)
            is_recurrent = config["model_type"] in RECURRENT
            tokens, positions = (LONG_TOKENS, LONG_POSITIONS) if is_recurrent else (TOKENS, POSITIONS)
            tensors = shapes(config)
            model = load(config, tensors)
            if name in DRAFTS:
                heads = head_shapes(tensors, hidden)
                drafts = draft(model, config, heads, tokens)
                tensors = {**tensors, **heads}
            embedded, layers, logits = run(model, tokens)
            # The frequencies of longrope depend on the number of tokens in a pass.
            if (config.get("rope_scaling") or {}).get("type") != "longrope":
                check(model, tokens, layers, logits)
            golden = {
                "versions": versions,
                "config": config,
                "tensors": tensors,
                "tokens": tokens,
                "positions": positions,
            }
            golden = {key: json.dumps(value, separators=(",", ":")) for key, value in golden.items()}
            golden["embedded"] = rows(embedded, positions)
            golden["layers"] = "[" + ",".join(rows(layer, positions) for layer in layers) + "]"
            golden["logits"] = rows(logits, positions)
            path = folder / f"{name}-{hidden}.json"
            if name in DRAFTS:
                golden["drafts"] = "[" + ",".join(rows(np.array(pair), [0, 1]) for pair in drafts) + "]"
                path = folder / "drafts" / path.name
            lines = ",\n".join(f'"{key}":{value}' for key, value in golden.items())
            path.write_text(f"{{\n{lines}\n}}\n")
            print(path.name, path.stat().st_size)


if __name__ == "__main__":
    main()
