"""Functions that apply bitmasks, under the names of XGrammar's kernels. All of them use PyTorch."""
