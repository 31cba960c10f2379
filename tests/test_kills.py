"""However often runs are killed, nothing is lost, nothing foreign is touched, nothing stays."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="processes are forked")
def test_forty_kills_do_no_harm():
    """Ten each of saving, fitting, predicting and a study; `--times` asks for more."""
    script = Path(__file__).parent / "killing.py"
    words = [sys.executable, "-W", "ignore", str(script), "--times", "40"]
    run = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
    assert run.returncode == 0, run.stdout[-5_000:] + run.stderr[-5_000:]
    assert "40 kills without harm, 0 with" in run.stdout
