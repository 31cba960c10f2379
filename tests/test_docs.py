"""Every example in the documentation runs and prints what the page says."""

import pytest

from doc_examples import PAGES, differences


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_print_what_is_shown(page):
    assert differences(page.read_text(encoding="utf-8")) == []
