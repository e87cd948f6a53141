"""Writes NAME.json next to this file: logits of Hugging Face transformers for tiny random models.

The models have the architectures that run on candle's own models.

    pip install torch==2.15.0 transformers==5.23.0 safetensors numpy
    python3 borrowed.py [NAME ...]

The files have the format of ../generate.py, but without the residual streams. The weights have the same formula.
"""

import json
import pathlib
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).parent.parent))

import safetensors.numpy
import torch
import transformers
from generate import COMMON, POSITIONS, SIZES, TOKENS, rows, weights

BASE = {**COMMON, **SIZES[64]}
ROPE = {"rope_theta": 10000.0, "rope_scaling": None}
MODELS = {
    "gemma": {
        "model_type": "gemma",
        "architectures": ["GemmaForCausalLM"],
        "attention_bias": False,
        "head_dim": 32,
        "hidden_act": "gelu_pytorch_tanh",
        "rms_norm_eps": 1e-6,
        **ROPE,
    },
    "helium": {
        "model_type": "helium",
        "architectures": ["HeliumForCausalLM"],
        "attention_bias": False,
        "head_dim": 16,
        "hidden_act": "silu",
        "mlp_bias": False,
        "pad_token_id": 3,
        "rms_norm_eps": 1e-8,
        "tie_word_embeddings": False,
        **ROPE,
    },
    "olmo": {
        "model_type": "olmo",
        "architectures": ["OlmoForCausalLM"],
        "attention_bias": False,
        "clip_qkv": None,
        "hidden_act": "silu",
        "pad_token_id": 1,
        "tie_word_embeddings": False,
        **ROPE,
    },
    "phi": {
        "model_type": "phi",
        "architectures": ["PhiForCausalLM"],
        "embd_pdrop": 0.0,
        "hidden_act": "gelu_new",
        "layer_norm_eps": 1e-5,
        "num_key_value_heads": 4,
        "partial_rotary_factor": 0.5,
        "qk_layernorm": False,
        "resid_pdrop": 0.0,
        "tie_word_embeddings": False,
        **ROPE,
    },
    "starcoder2": {
        "model_type": "starcoder2",
        "architectures": ["Starcoder2ForCausalLM"],
        "embedding_dropout": 0.0,
        "hidden_act": "gelu_pytorch_tanh",
        "norm_epsilon": 1e-5,
        "residual_dropout": 0.0,
        "sliding_window": None,
        "tie_word_embeddings": True,
        "use_bias": True,
        **ROPE,
    },
}


@torch.no_grad()
def golden(config):
    with tempfile.TemporaryDirectory() as folder:
        config_file = pathlib.Path(folder, "config.json")
        config_file.write_text(json.dumps(config))
        settings = transformers.AutoConfig.from_pretrained(folder)
        # The model is saved once to get the tensor names and shapes of released checkpoints.
        transformers.AutoModelForCausalLM.from_config(settings).save_pretrained(folder)
        file = f"{folder}/model.safetensors"
        shapes = {name: list(tensor.shape) for name, tensor in safetensors.numpy.load_file(file).items()}
        kind = "gemma2" if config["model_type"] == "gemma" else config["model_type"]
        tensors = {name: weights(name, shape, kind) for name, shape in shapes.items()}
        safetensors.numpy.save_file(tensors, file, {"format": "pt"})
        config_file.write_text(json.dumps(config))
        model, report = transformers.AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True
        )
    if any(report.values()):
        raise SystemExit(f"{config['model_type']}: not loaded as it is: {report}")
    logits = model.eval()(input_ids=torch.tensor([TOKENS])).logits[0].numpy()
    return shapes, logits


def main():
    folder = pathlib.Path(__file__).parent
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    for name in sys.argv[1:] or MODELS:
        config = dict(sorted({**BASE, **MODELS[name]}.items()))
        shapes, logits = golden(config)
        parts = {
            "versions": versions,
            "config": config,
            "tensors": shapes,
            "tokens": TOKENS,
            "positions": POSITIONS,
            "embedded": [],
            "layers": [],
        }
        parts = {key: json.dumps(value, separators=(",", ":")) for key, value in parts.items()}
        parts["logits"] = rows(logits)
        lines = ",\n".join(f'"{key}":{value}' for key, value in parts.items())
        path = folder / f"{name}.json"
        path.write_text(f"{{\n{lines}\n}}\n")
        print(path.name, path.stat().st_size)


if __name__ == "__main__":
    main()
