"""Writes blocks.safetensors: random blocks of every encoding, and the values that the `gguf` package reads from them.

    pip install gguf==0.19.0 numpy==2.4.6 safetensors==0.8.0
    python3 generate.py

A type with the number N in files, called NAME, has its bytes as `N.NAME.blocks` and 512 floats as `N.NAME.values`.
"""

import pathlib

import gguf
import numpy
import safetensors.numpy

Type = gguf.GGMLQuantizationType

ELEMENTS = 512

# Offsets of the half-precision floats in a block. Random bytes would mostly be extreme values, infinities or NaN.
HALVES = {
    Type.Q4_0: [0],
    Type.Q4_1: [0, 2],
    Type.Q5_0: [0],
    Type.Q5_1: [0, 2],
    Type.Q8_0: [0],
    Type.Q2_K: [80, 82],
    Type.Q3_K: [108],
    Type.Q4_K: [0, 2],
    Type.Q5_K: [0, 2],
    Type.Q6_K: [208],
    Type.IQ4_NL: [0],
    Type.IQ4_XS: [0],
}


def numbers(random, count):
    """Of both signs and of magnitudes down to halves below the normal ones."""
    return (random.normal(size=count) * 10 ** random.uniform(-6, 0, count)).astype(numpy.float32)


def random_floats(random, kind):
    return gguf.quants.quantize(numbers(random, ELEMENTS), kind).view(numpy.uint8)


def random_blocks(random, kind):
    block_len, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (ELEMENTS // block_len, block_bytes), dtype=numpy.uint8)
    for at in HALVES.get(kind, []):
        halves = numbers(random, len(blocks)).astype(numpy.float16)
        blocks[:, at : at + 2] = halves.view(numpy.uint8).reshape(-1, 2)
    if kind == Type.MXFP4:
        blocks[:, 0] = random.integers(100, 128, len(blocks))
        blocks[:3, 0] = [0, 1, 2]  # around the smallest normal float
    if kind == Type.NVFP4:
        blocks[:, :4] = random.integers(0, 128, (len(blocks), 4))
        blocks[:2, :4] = [[0, 1, 7, 8], [126, 127, 64, 56]]  # subnormal, largest and invalid scales
    return blocks.ravel()


def main():
    random = numpy.random.default_rng(1)
    tensors = {}
    makers = dict.fromkeys([Type.F32, Type.F16, Type.BF16], random_floats)
    makers |= dict.fromkeys([*HALVES, Type.MXFP4, Type.NVFP4], random_blocks)
    for kind, make in makers.items():
        blocks = make(random, kind)
        values = gguf.quants.dequantize(blocks, kind).ravel()
        assert len(values) == ELEMENTS and numpy.isfinite(values).all()
        tensors[f"{kind.value}.{kind.name}.blocks"] = blocks
        tensors[f"{kind.value}.{kind.name}.values"] = values
    safetensors.numpy.save_file(tensors, pathlib.Path(__file__).with_name("blocks.safetensors"))


main()
