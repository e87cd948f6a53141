"""Writes NAME.json next to this file: results of Hugging Face transformers for tiny random models of whole texts.

    pip install torch==2.15.0 transformers==5.23.0 safetensors numpy
    python3 generate.py [NAME ...]

The files have the form of those in the folder above, with weights that are computed from names in the same way. There
are no logits. `states` has the output of the model, after its last norm. `mean` is its mean over all tokens. A reranker
has `score`, the output of its classifier for `tokens` as a pair whose second text starts at `second`.
"""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))

import numpy as np
import torch
import transformers

import generate
from generate import POSITIONS, TOKENS, rows

SECOND = 17

COMMON = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "max_position_embeddings": 64,
    "num_attention_heads": 4,
    "num_hidden_layers": 4,
    "torch_dtype": "float32",
    "vocab_size": generate.VOCAB,
}
BERT = {
    **COMMON,
    "architectures": ["BertModel"],
    "model_type": "bert",
    "attention_probs_dropout_prob": 0.0,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.0,
    "layer_norm_eps": 1e-12,
    "pad_token_id": 0,
    "type_vocab_size": 2,
}
MODERN_BERT = {
    **COMMON,
    "architectures": ["ModernBertModel"],
    "model_type": "modernbert",
    "attention_bias": False,
    "bos_token_id": 1,
    "classifier_pooling": "mean",
    "cls_token_id": 1,
    "eos_token_id": 2,
    "global_attn_every_n_layers": 3,
    "global_rope_theta": 160000.0,
    "hidden_activation": "gelu",
    "local_attention": 8,
    "local_rope_theta": 10000.0,
    "mlp_bias": False,
    "norm_bias": False,
    "norm_eps": 1e-5,
    "num_hidden_layers": 5,
    "pad_token_id": 0,
    "sep_token_id": 2,
}
MODELS = {
    "bert": BERT,
    "bert-reranker": {
        **BERT,
        "architectures": ["BertForSequenceClassification"],
        "id2label": {"0": "LABEL_0"},
        "label2id": {"LABEL_0": 0},
        "num_hidden_layers": 2,
    },
    "nomic-bert": {
        **COMMON,
        "architectures": ["NomicBertModel"],
        "model_type": "nomic_bert",
        "hidden_act": "silu",
        "layer_norm_eps": 1e-12,
        "pad_token_id": 0,
        "rope_parameters": {"rope_theta": 1000.0, "rope_type": "default"},
        "type_vocab_size": 2,
    },
    "modern-bert": MODERN_BERT,
    "modern-bert-reranker": {
        **MODERN_BERT,
        "architectures": ["ModernBertForSequenceClassification"],
        "id2label": {"0": "LABEL_0"},
        "label2id": {"LABEL_0": 0},
        "num_hidden_layers": 2,
    },
    "embedding-gemma": {
        **COMMON,
        **generate.GEMMA3,
        "architectures": ["Gemma3TextModel"],
        "bos_token_id": 1,
        "eos_token_id": 2,
        "head_dim": 32,
        "layer_types": (["sliding_attention"] * 2 + ["full_attention"]) * 2,
        "num_hidden_layers": 6,
        "num_key_value_heads": 2,
        "query_pre_attn_scalar": 32,
        "rope_scaling": None,
        "sliding_window": 8,
        "use_bidirectional_attention": True,
    },
    "qwen3-embedding": {
        **COMMON,
        **generate.QWEN3,
        "architectures": ["Qwen3Model"],
        "bos_token_id": 1,
        "eos_token_id": 2,
        "head_dim": 32,
        "num_key_value_heads": 2,
    },
}


@torch.no_grad()
def run(model, tokens, is_ranking):
    """Returns the streams before and after each layer, the output of the model, and the score."""
    streams = []

    def enters(_, arguments, named):
        streams.append(arguments[0] if arguments else named["hidden_states"])

    def leaves(_, arguments, output):
        streams.append(output[0] if isinstance(output, tuple) else output)

    base = getattr(model, model.base_model_prefix, model) if is_ranking else model
    layers = base.encoder.layer if hasattr(base, "encoder") else base.layers
    hooks = [layers[0].register_forward_pre_hook(enters, with_kwargs=True)]
    hooks += [layer.register_forward_hook(leaves) for layer in layers]
    types = [[int(at >= SECOND) for at in range(len(tokens))]] if is_ranking else None
    extra = {"token_type_ids": torch.tensor(types)} if types and hasattr(base.config, "type_vocab_size") else {}
    states = base(input_ids=torch.tensor([tokens]), **extra).last_hidden_state[0].numpy()
    for hook in hooks:
        hook.remove()
    score = float(model(input_ids=torch.tensor([tokens]), **extra).logits[0, 0]) if is_ranking else None
    embedded, *left = (stream[0].numpy().copy() for stream in streams)
    return embedded, left, states, score


def main():
    folder = pathlib.Path(__file__).parent
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    for name in sys.argv[1:] or MODELS:
        config = dict(sorted(MODELS[name].items()))
        is_ranking = name.endswith("reranker")
        tensors = generate.saved_shapes(config)
        model = generate.load(config, tensors)
        embedded, layers, states, score = run(model, TOKENS, is_ranking)
        assert all(0.1 < layer.std() < 100 for layer in layers)
        golden = {
            "versions": versions,
            "config": config,
            "tensors": tensors,
            "tokens": TOKENS,
            "positions": POSITIONS,
            "second": SECOND if is_ranking else None,
            "score": score,
        }
        golden = {key: json.dumps(value, separators=(",", ":")) for key, value in golden.items()}
        golden["embedded"] = rows(embedded)
        golden["layers"] = "[" + ",".join(rows(layer) for layer in layers) + "]"
        golden["logits"] = "[]"
        golden["states"] = rows(states)
        golden["mean"] = rows(states.mean(axis=0, keepdims=True), [0])[1:-1]
        lines = ",\n".join(f'"{key}":{value}' for key, value in golden.items())
        path = folder / f"{name}.json"
        path.write_text(f"{{\n{lines}\n}}\n")
        print(path.name, path.stat().st_size, score)


if __name__ == "__main__":
    main()
