"""Writes random blocks of every encoding, and the values that the `gguf` package reads from them.

    pip install gguf==0.19.0 numpy==2.4.6 safetensors==0.8.0
    python3 generate.py

A type with the number N in files, called NAME, has its bytes as `N.NAME.blocks` and 512 floats as `N.NAME.values` in
blocks.safetensors. The types with grids are also in grids.safetensors: blocks with every index, and their values in units
of the scale plus 128, as bytes.
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

# The same for types that were added later, which leaves the blocks of the others as they were.
MORE_HALVES = {
    Type.IQ1_S: [0],
    Type.IQ2_XXS: [0],
    Type.IQ2_XS: [0],
    Type.IQ2_S: [0],
    Type.IQ3_XXS: [0],
    Type.IQ3_S: [0],
    Type.TQ1_0: [52],
    Type.TQ2_0: [64],
}

# Types that the package does not decode: number, elements and bytes of a block, bits and levels of an element. The scale comes
# first, then the codes from the lowest bit up, as `dequantize_row_q1_0` and `dequantize_row_q2_0` in ggml-quants.c read them.
UNKNOWN = {"Q1_0": (41, 128, 18, 1, [-1, 1]), "Q2_0": (42, 64, 18, 2, [-1, 0, 1, 2])}

# Number of elements that share an index, scale of a block for which all elements are integers, and number of indices.
GRIDS = {
    Type.IQ1_S: (8, 8, 2048),
    Type.IQ1_M: (8, 8, 2048),
    Type.IQ2_XXS: (8, 8, 256),
    Type.IQ2_XS: (8, 8, 512),
    Type.IQ2_S: (8, 8, 1024),
    Type.IQ3_XXS: (4, 4, 256),
    Type.IQ3_S: (4, 1, 512),
}


def numbers(random, count):
    """Of both signs and of magnitudes down to halves below the normal ones."""
    return (random.normal(size=count) * 10 ** random.uniform(-6, 0, count)).astype(numpy.float32)


def random_floats(random, kind):
    return gguf.quants.quantize(numbers(random, ELEMENTS), kind).view(numpy.uint8)


def random_blocks(random, kind):
    block_len, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (ELEMENTS // block_len, block_bytes), dtype=numpy.uint8)
    for at in (HALVES | MORE_HALVES).get(kind, []):
        halves = numbers(random, len(blocks)).astype(numpy.float16)
        blocks[:, at : at + 2] = halves.view(numpy.uint8).reshape(-1, 2)
    if kind == Type.IQ1_M:
        put_iq1_m_scale(blocks, numbers(random, len(blocks)))
    if kind == Type.MXFP4:
        blocks[:, 0] = random.integers(100, 128, len(blocks))
        blocks[:3, 0] = [0, 1, 2]  # around the smallest normal float
    if kind == Type.NVFP4:
        blocks[:, :4] = random.integers(0, 128, (len(blocks), 4))
        blocks[:2, :4] = [[0, 1, 7, 8], [126, 127, 64, 56]]  # subnormal, largest and invalid scales
    return blocks.ravel()


def put_iq1_m_scale(blocks, halves):
    """The scale has four bits in each of the last four words of a block."""
    words = blocks[:, 48:].copy().view(numpy.uint16) & 0x0FFF
    words |= (halves.astype(numpy.float16).view(numpy.uint16)[:, None] >> numpy.array([0, 4, 8, 12], numpy.uint16)) << 12
    blocks[:, 48:] = words.view(numpy.uint8)


def unknown_blocks(random, block_len, block_bytes, bits, levels):
    count = ELEMENTS // block_len
    blocks = random.integers(0, 256, (count, block_bytes), dtype=numpy.uint8)
    scales = numbers(random, count).astype(numpy.float16)
    blocks[:, :2] = scales.view(numpy.uint8).reshape(-1, 2)
    codes = numpy.unpackbits(blocks[:, 2:], axis=1, bitorder="little").reshape(count, block_len, bits)
    codes = (codes << numpy.arange(bits)).sum(axis=2)
    return blocks.ravel(), (scales.astype(numpy.float32)[:, None] * numpy.float32(levels)[codes]).ravel()


def blocks_of_all_indices(random, kind):
    """Blocks with all indices and random signs. Factors of scales are 0, which stands for 1/2, or 1 for IQ1 and IQ3_S."""
    shared, unit, count = GRIDS[kind]
    block_len, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (count * shared // block_len, block_bytes), dtype=numpy.uint8)
    low = {Type.IQ1_M: 0}.get(kind, 2)
    indices = numpy.arange(count).reshape(len(blocks), -1)
    first, high = indices & 255, indices >> 8
    if kind == Type.IQ2_XXS:
        groups = blocks[:, low:].reshape(len(blocks), 8, 8)
        groups[:, :, :4] = first.reshape(len(blocks), 8, 4)
        groups[:, :, 7] &= 15
        blocks[:, low:] = groups.reshape(len(blocks), -1)
    elif kind == Type.IQ2_XS:
        words = blocks[:, low : low + 64].copy().view(numpy.uint16) & 0xFE00 | indices.astype(numpy.uint16)
        blocks[:, low:] = 0
        blocks[:, low : low + 64] = words.view(numpy.uint8)
    else:
        blocks[:, low : low + first.shape[1]] = first
    if kind == Type.IQ2_S:
        blocks[:, 66:74] = (high.reshape(-1, 8, 4) << numpy.array([0, 2, 4, 6])).sum(axis=2)
        blocks[:, 74:] = 0
    if kind == Type.IQ3_XXS:
        blocks[:, 69::4] &= 15
    if kind == Type.IQ3_S:
        blocks[:, 66:74] = (high.reshape(-1, 8, 8) << numpy.arange(8)).sum(axis=2)
        blocks[:, 106:] = 0
    if kind == Type.IQ1_S:
        words = (high.reshape(-1, 8, 4) << numpy.array([0, 3, 6, 9])).sum(axis=2)
        words |= random.integers(0, 2, words.shape) << 15
        blocks[:, 34:] = words.astype(numpy.uint16).view(numpy.uint8)
    if kind == Type.IQ1_M:
        high = high | random.integers(0, 2, high.shape) << 3
        blocks[:, 32:48] = (high.reshape(-1, 16, 2) << numpy.array([0, 4])).sum(axis=2)
        blocks[:, 48:] = 0
        put_iq1_m_scale(blocks, numpy.full(len(blocks), unit))
    else:
        blocks[:, :2] = numpy.float16([unit]).view(numpy.uint8)
    return blocks.ravel()


def main():
    random = numpy.random.default_rng(1)
    tensors = {}
    makers = dict.fromkeys([Type.F32, Type.F16, Type.BF16], random_floats)
    makers |= dict.fromkeys([*HALVES, Type.MXFP4, *MORE_HALVES, Type.IQ1_M, Type.NVFP4], random_blocks)
    for kind, make in makers.items():
        blocks = make(random, kind)
        values = gguf.quants.dequantize(blocks, kind).ravel()
        assert len(values) == ELEMENTS and numpy.isfinite(values).all()
        tensors[f"{kind.value}.{kind.name}.blocks"] = blocks
        tensors[f"{kind.value}.{kind.name}.values"] = values
    for name, (number, *form) in UNKNOWN.items():
        blocks, values = unknown_blocks(random, *form)
        tensors[f"{number}.{name}.blocks"] = blocks
        tensors[f"{number}.{name}.values"] = values
    safetensors.numpy.save_file(tensors, pathlib.Path(__file__).with_name("blocks.safetensors"))

    tensors = {}
    for kind in GRIDS:
        blocks = blocks_of_all_indices(random, kind)
        values = gguf.quants.dequantize(blocks, kind).ravel()
        if kind in (Type.IQ1_S, Type.IQ1_M):
            assert set(values) == {-9, -7, -1, 1, 7, 9}
        assert (values == values.round()).all() and abs(values).max() < 128
        tensors[f"{kind.value}.{kind.name}.blocks"] = blocks
        tensors[f"{kind.value}.{kind.name}.values"] = (values + 128).astype(numpy.uint8)
    safetensors.numpy.save_file(tensors, pathlib.Path(__file__).with_name("grids.safetensors"))


main()
