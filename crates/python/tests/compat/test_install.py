"""`formwork.compat.install`, in processes of its own because imports last."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.ours


def run(*lines: str) -> subprocess.CompletedProcess[str]:
    """Runs lines of Python in a new process."""
    return subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("name", ["xgrammar", "llguidance"])
def test_gives_a_package_another_name(name):
    done = run(
        "import sys, formwork.compat",
        f"ours = formwork.compat.install({name!r})",
        f"import {name} as given",
        f"import formwork.compat.{name} as real",
        "assert given is real is ours",
        f"assert sys.modules[{name!r}] is real",
        f"assert given.__spec__.name == 'formwork.compat.{name}'",
        "formwork.compat.install(given.__name__.rpartition('.')[2])",
    )
    assert done.returncode == 0, done.stderr


def test_covers_submodules():
    pytest.importorskip("torch")
    done = run(
        "import formwork.compat",
        "formwork.compat.install('xgrammar')",
        "import xgrammar.testing, xgrammar.matcher, xgrammar.kernels.apply_token_bitmask_inplace_torch as kernel",
        "from xgrammar import GrammarMatcher, testing",
        "import formwork.compat.xgrammar.matcher as real",
        "assert xgrammar.matcher is real and GrammarMatcher is real.GrammarMatcher",
        "assert testing is xgrammar.testing",
        "assert testing._is_grammar_accept_string('root ::= \"a\"', 'a')",
        "assert kernel.__name__.startswith('formwork.')",
        "try:",
        "    import xgrammar.missing",
        "except ModuleNotFoundError:",
        "    pass",
        "else:",
        "    raise SystemExit('found a module that is not there')",
    )
    assert done.returncode == 0, done.stderr


def test_refuses_to_mix_two_packages(tmp_path):
    (tmp_path / "xgrammar.py").write_text("", encoding="utf-8")
    done = run(
        "import sys",
        f"sys.path.insert(0, {str(tmp_path)!r})",
        "import xgrammar, formwork.compat",
        "try:",
        "    formwork.compat.install('xgrammar')",
        "except RuntimeError as error:",
        "    assert 'imported already' in str(error)",
        "else:",
        "    raise SystemExit('no error')",
    )
    assert done.returncode == 0, done.stderr


def test_undoes_the_replacement(tmp_path):
    (tmp_path / "xgrammar.py").write_text("REAL = True", encoding="utf-8")
    done = run(
        "import sys",
        f"sys.path.insert(0, {str(tmp_path)!r})",
        "import formwork.compat",
        "formwork.compat.install('xgrammar')",
        "import xgrammar.matcher",
        "formwork.compat.uninstall('xgrammar')",
        "import xgrammar",
        "assert xgrammar.REAL",
    )
    assert done.returncode == 0, done.stderr


def test_knows_two_packages():
    done = run(
        "import formwork.compat",
        "try:",
        "    formwork.compat.install('outlines')",
        "except ValueError as error:",
        "    assert 'llguidance, xgrammar' in str(error)",
        "else:",
        "    raise SystemExit('no error')",
    )
    assert done.returncode == 0, done.stderr


def test_needs_no_other_package():
    blocked = ("torch", "transformers", "pydantic", "numpy")
    done = run(
        "import sys",
        f"sys.modules.update(dict.fromkeys({blocked!r}))",
        "import formwork.compat.xgrammar as xgr, formwork.compat.llguidance as ll",
        "info = xgr.TokenizerInfo(['a', 'b', '</s>'])",
        "compiled = xgr.GrammarCompiler(info).compile_structural_tag(",
        '    \'{"format": {"type": "regex", "pattern": "ab"}}\')',
        "matcher = xgr.GrammarMatcher(compiled)",
        "assert matcher.accept_token(0) and not matcher.accept_token(0) and matcher.accept_token(1)",
        "assert ll.grammar_from('lark', 'start: \"a\"')",
    )
    assert done.returncode == 0, done.stderr
