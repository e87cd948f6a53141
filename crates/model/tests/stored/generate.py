"""Writes vectors.safetensors: small quantised matrices in each format that a checkpoint can have, and their values.

    pip install ml_dtypes==0.6.0 numpy==2.4.6
    python3 generate.py

A case NAME has the tensors of a linear layer, for example `NAME.weight_packed`, and its values as `NAME.expected`. The
layouts are those that compressed-tensors 0.20, AutoGPTQ, AutoAWQ and NVIDIA's Model Optimizer write. The small floats are
decoded by ml_dtypes.
"""

import json
import pathlib

import ml_dtypes
import numpy

ROWS, COLUMNS = 16, 128
DTYPES = {
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "int32": "I32",
    "int8": "I8",
    "uint8": "U8",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e8m0fnu": "F8_E8M0",
}
# Output of each nibble of a word, from the lowest one up.
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]

random = numpy.random.default_rng(7)
tensors = {}


def add(case, expected, **parts):
    for part, tensor in parts.items():
        tensors[f"{case}.{part}"] = numpy.asarray(tensor)
    tensors[f"{case}.expected"] = numpy.asarray(expected, numpy.float32)


def scales(shape, dtype=numpy.float32):
    return (2 ** random.uniform(-12, -6, shape)).astype(dtype)


def float8(shape):
    """All finite numbers, of both signs."""
    magnitudes = random.integers(0, 127, shape, dtype=numpy.uint8)
    return (magnitudes | random.integers(0, 2, shape, dtype=numpy.uint8) << 7).view(ml_dtypes.float8_e4m3fn)


def packed(codes, bits, axis):
    """Packs codes into 32-bit words along an axis, the first one in the lowest bits."""
    codes = numpy.moveaxis(codes, axis, -1).astype(numpy.uint32)
    words = codes.reshape(*codes.shape[:-1], -1, 32 // bits) << numpy.arange(0, 32, bits, dtype=numpy.uint32)
    return numpy.ascontiguousarray(numpy.moveaxis(numpy.bitwise_or.reduce(words, -1).view(numpy.int32), -1, axis))


def spread(scale, shape, block):
    """Repeats the scales of blocks."""
    return numpy.repeat(numpy.repeat(scale, block[0], -2), block[1], -1)[..., : shape[-2], : shape[-1]].astype(numpy.float32)


def add_float8():
    shape, block = (ROWS, 96), (12, 64)
    for case, part, scale in [
        ("fp8-block", "weight_scale_inv", scales((2, 2))),
        ("fp8-block-powers", "weight_scale_inv", scales((2, 2), ml_dtypes.float8_e8m0fnu)),
        ("float-block", "weight_scale", scales((2, 2), ml_dtypes.bfloat16)),
    ]:
        weight = float8(shape)
        add(case, weight.astype(numpy.float32) * spread(scale, shape, block), weight=weight, **{part: scale})
    for case, part, scale in [
        ("fp8-tensor", "weight_scale_inv", scales((), ml_dtypes.bfloat16)),
        ("float-tensor", "weight_scale", scales((1,))),
        ("float-channel", "weight_scale", scales((ROWS, 1), ml_dtypes.bfloat16)),
        ("modelopt-fp8", "weight_scale", scales(())),
    ]:
        weight = float8(shape)
        add(case, weight.astype(numpy.float32) * scale.astype(numpy.float32), weight=weight, **{part: scale})
    shape = (2, ROWS, 96)
    weight, scale = float8(shape), scales((2, 2, 2))
    add("fp8-experts", weight.astype(numpy.float32) * spread(scale, shape, block))
    tensors["fp8-experts"], tensors["fp8-experts_scale_inv"] = weight, scale


def add_float4():
    for case, columns in [("nvfp4", COLUMNS), ("nvfp4-narrow", 96)]:
        codes = random.integers(0, 16, (ROWS, columns), dtype=numpy.uint8)
        elements = codes.view(ml_dtypes.float4_e2m1fn).astype(numpy.float32)
        scale = random.integers(0, 127, (ROWS, columns // 16), dtype=numpy.uint8).view(ml_dtypes.float8_e4m3fn)
        pairs = codes[:, ::2] | codes[:, 1::2] << 4
        expected = elements * spread(scale, codes.shape, (1, 16))
        divisor, factor = numpy.float32([3000.0]), numpy.float32(1 / 3000)
        add(case, expected / divisor, weight_packed=pairs, weight_scale=scale, weight_global_scale=divisor)
        add(f"modelopt-{case}", expected * factor, weight=pairs, weight_scale=scale, weight_scale_2=factor)
    exponents = random.integers(110, 125, (ROWS, COLUMNS // 32), dtype=numpy.uint8)
    codes = random.integers(0, 16, (ROWS, COLUMNS), dtype=numpy.uint8)
    scale = spread(exponents.view(ml_dtypes.float8_e8m0fnu), codes.shape, (1, 32))
    expected = codes.view(ml_dtypes.float4_e2m1fn).astype(numpy.float32) * scale
    add("mxfp4", expected, weight_packed=codes[:, ::2] | codes[:, 1::2] << 4, weight_scale=exponents)


def integers(bits, group, symmetric, dtype, order=None):
    """Returns codes, zero points, scales and values."""
    codes = random.integers(0, 1 << bits, (ROWS, COLUMNS))
    groups = COLUMNS // group
    zeros = random.integers(1, 1 << bits, (ROWS, groups))
    if symmetric:
        zeros[:] = 1 << (bits - 1)
    scale = scales((ROWS, groups), dtype)
    of = numpy.arange(COLUMNS) // group if order is None else order
    return codes, zeros, scale, (codes - zeros[:, of]) * scale.astype(numpy.float32)[:, of]


def add_integers():
    order = random.permutation(numpy.arange(COLUMNS) // 32)
    for case, bits, group, symmetric, groups_of in [
        ("pack", 4, 32, True, None),
        ("pack-offset", 4, 32, False, None),
        ("pack-channel", 4, COLUMNS, True, None),
        ("pack-narrow", 4, 16, False, None),
        ("pack-order", 4, 32, True, order),
        ("pack-8", 8, 64, True, None),
    ]:
        codes, zeros, scale, expected = integers(bits, group, symmetric, ml_dtypes.bfloat16, groups_of)
        parts = {"weight_packed": packed(codes, bits, 1), "weight_scale": scale}
        if not symmetric:
            parts["weight_zero_point"] = packed(zeros, bits, 0)
        if groups_of is not None:
            parts["weight_g_idx"] = groups_of.astype(numpy.int32)
        add(case, expected, **parts)
    for case, symmetric in [("int8", True), ("int8-offset", False)]:
        codes, zeros, scale, expected = integers(8, COLUMNS, symmetric, ml_dtypes.bfloat16)
        parts = {"weight": (codes - 128).astype(numpy.int8), "weight_scale": scale}
        if not symmetric:
            parts["weight_zero_point"] = (zeros - 128).astype(numpy.int8)
        add(case, expected, **parts)
    for case, bits, group, symmetric, groups_of, minus in [
        ("gptq", 4, 32, True, None, 1),
        ("gptq-offset", 4, 64, False, None, 1),
        ("gptq-v2", 4, 32, False, None, 0),
        ("gptq-row", 4, COLUMNS, True, None, 1),
        ("gptq-order", 4, 32, False, order, 1),
        ("gptq-8", 8, 32, True, None, 1),
        ("gptq-2", 2, 32, False, None, 1),
    ]:
        codes, zeros, scale, expected = integers(bits, group, symmetric, numpy.float16, groups_of)
        of = numpy.arange(COLUMNS) // group if groups_of is None else groups_of
        qzeros = packed((zeros - minus).T, bits, 1)
        qweight, scale = packed(codes.T, bits, 0), numpy.ascontiguousarray(scale.T)
        add(case, expected, qweight=qweight, qzeros=qzeros, scales=scale, g_idx=of.astype(numpy.int32))
    codes, zeros, scale, expected = integers(4, 32, False, numpy.float16)
    outputs = (numpy.arange(ROWS) // 8 * 8).reshape(-1, 8)[:, :1] + numpy.array(AWQ_ORDER)
    ordered = [packed(values.T[:, outputs.ravel()], 4, 1) for values in (codes, zeros)]
    add("awq", expected, qweight=ordered[0], qzeros=ordered[1], scales=numpy.ascontiguousarray(scale.T))


def main():
    add_float8()
    add_float4()
    add_integers()
    header, data = {}, b""
    for name, tensor in tensors.items():
        raw = tensor.tobytes()
        offsets = [len(data), len(data) + len(raw)]
        header[name] = {"dtype": DTYPES[tensor.dtype.name], "shape": list(tensor.shape), "data_offsets": offsets}
        data += raw
    header = json.dumps(header).encode()
    file = len(header).to_bytes(8, "little") + header + data
    pathlib.Path(__file__).with_name("vectors.safetensors").write_bytes(file)


main()
