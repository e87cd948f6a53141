"""Measurements that anyone can repeat.

`python -m formwork.bench masks --tokenizer tokenizer.json FOLDER` runs MaskBench on this engine and on the peers
that are installed.
"""
