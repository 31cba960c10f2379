"""The table of estimates: its figures, its three forms and its refusals."""

import re
import subprocess
import sys

import numpy as np
import pytest

from deeppqr import DataError
from deeppqr.report import Estimates

TITLE = "Rust's buses, group_4 & 50% of it"


@pytest.fixture
def estimates():
    return Estimates(
        TITLE,
        ("RC", "theta_11", "a|b"),
        np.array([10.075, -2.293, 1.0]),
        np.diag([1.582**2, 0.639**2, 0.0]),
        {"observations": "4,292", "log-likelihood": "-163.585"},
        "Clustered by bus.",
    )


def test_figures_are_those_of_the_normal_law(estimates):
    first, second, fixed = estimates.table()
    assert first.z == pytest.approx(10.075 / 1.582)
    assert (first.low, first.high) == pytest.approx((6.9743, 13.1757), abs=1e-4)
    # 2 * Phi(-3.5884) from a table of the normal law.
    assert second.p == pytest.approx(3.327e-4, rel=1e-3)
    assert np.isnan([fixed.standard_error, fixed.z, fixed.p, fixed.low]).all()
    np.testing.assert_allclose(estimates.standard_errors, [1.582, 0.639, 0])


def test_far_tails_keep_their_p_value():
    far = Estimates("far", ("x",), np.array([20.0]), np.eye(1))
    assert far.table()[0].p == pytest.approx(5.5072e-89, rel=1e-4)


def test_text_is_what_print_shows(estimates):
    text = estimates.text()
    assert str(estimates) == text
    lines = text.splitlines()
    assert TITLE in lines[0]
    assert len({len(line) for line in lines[1:7]}) == 1
    assert lines[4].split() == "RC 10.0750 1.5820 6.37 <0.001 6.9743 13.1757".split()
    assert lines[6].split() == "a|b 1.0000 - - - - -".split()
    assert "log-likelihood  -163.585" in lines
    assert lines[-1] == "Clustered by bus."


def test_every_form_shows_the_same_figures(estimates):
    found = [
        re.findall(r"\d+\.\d{2,4}", form.replace("$-$", "-"))
        for form in (estimates.text(), estimates.markdown(), estimates.latex())
    ]
    assert found[0] == found[1] == found[2]
    assert len(found[0]) > 10


def test_markdown_cells_do_not_end_early(estimates):
    markdown = estimates.markdown()
    assert markdown.startswith(f"**{TITLE}**")
    assert r"| a\|b | 1.0000 | - |" in markdown
    assert "observations 4,292; log-likelihood -163.585." in markdown


def test_latex_is_escaped_and_has_booktabs_rules(estimates):
    latex = estimates.latex()
    assert r"\caption{Rust's buses, group\_4 \& 50\% of it}" in latex
    assert r"theta\_11 & $-$2.2930 & 0.6390 & $-$3.59 & $<0.001$" in latex
    assert r"95\% low" in latex
    assert [latex.count(rf"\{rule}") for rule in ("toprule", "midrule", "bottomrule")] == [
        1,
        2,
        1,
    ]
    assert r"\multicolumn{6}{l}{$-$163.585}" in latex
    body = latex.replace(r"\%", "").replace(r"\&", "")
    assert "%" not in body
    assert latex.count("{") == latex.count("}")


def test_backslashes_and_braces_survive_latex():
    odd = Estimates(r"\beta{~}", ("x",), np.zeros(1), np.eye(1))
    assert r"\textbackslash{}beta\{\textasciitilde{}\}" in odd.latex()


def test_small_standard_errors_get_more_digits():
    small = Estimates("small", ("x",), np.array([0.0012345]), np.eye(1) * 1e-10)
    assert small.text().splitlines()[4].split()[1:3] == ["0.0012345", "0.0000100"]


def test_shapes_must_agree():
    with pytest.raises(DataError, match=r"shapes \(2,\) and \(2, 2\), one entry for each"):
        Estimates("t", ("a", "b"), np.zeros(2), np.eye(3))


def test_a_negative_variance_is_named():
    with pytest.raises(DataError, match=r"that of 'b' is -1 \(1 of 2 in all\)"):
        Estimates("t", ("a", "b"), np.zeros(2), np.diag([1.0, -1.0]))


def test_reports_are_light_to_import():
    code = (
        "import sys, deeppqr.report; "
        "print([m for m in ('jax', 'matplotlib', 'sklearn', 'polars') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
