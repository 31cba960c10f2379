"""The report in a real browser: from disk, without a network, by keyboard, on paper."""

import base64

import pytest

from season_panel import decisions

HOSTILE = "</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def report(mixed, tmp_path_factory):
    return mixed.report(tmp_path_factory.mktemp("report") / "report.html")


@pytest.fixture
def opened(offline, report, console_errors, screen):
    screen()
    offline.get(report.as_uri())
    return offline


def test_it_opens_from_disk_without_a_network_or_an_error(opened, console_errors):
    assert opened.title == "The reward behind observed decisions"
    assert console_errors() == []
    asked = opened.execute_script(
        "return performance.getEntriesByType('resource').map(e => e.name)"
        ".filter(n => !n.startsWith('data:'))"
    )
    assert asked == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_has_no_serious_finding(opened, findings, screen, scheme):
    screen(scheme=scheme)
    assert findings() == []
    screen(scheme=scheme, width=390)
    assert findings() == []


def test_dark_screens_get_dark_pages_and_figures(opened, screen):
    colours = {}
    for scheme in ("light", "dark"):
        screen(scheme=scheme)
        colours[scheme] = opened.execute_script(
            "return [document.body, document.querySelector('svg text')]"
            ".map((e, i) => getComputedStyle(e)[i ? 'fill' : 'backgroundColor'])"
        )
    assert colours["light"][0] == "rgb(255, 255, 255)"
    assert colours["dark"][0] == "rgb(21, 23, 26)"
    assert colours["light"][1] != colours["dark"][1]


@pytest.mark.parametrize("width", [320, 390, 768, 1400])
def test_no_width_scrolls_sideways(opened, screen, width):
    screen(width=width)
    wide = opened.execute_script("return document.documentElement.scrollWidth")
    assert wide <= width


def test_everything_is_reached_by_keyboard(opened):
    from selenium.webdriver.common.keys import Keys

    body = opened.find_element("tag name", "body")
    body.send_keys(Keys.TAB)
    assert opened.switch_to.active_element.text == "To the findings"
    reached = set()
    for _ in range(200):
        opened.switch_to.active_element.send_keys(Keys.TAB)
        name = opened.switch_to.active_element.tag_name
        reached.add(name)
        if name == "body":
            break
    assert {"a", "button", "summary", "div"} <= reached
    summary = opened.find_element("tag name", "summary")
    summary.send_keys(Keys.ENTER)
    assert summary.find_element("xpath", "..").get_attribute("open")


@pytest.mark.parametrize("form", ["csv", "latex"])
def test_tables_copy(opened, form, mixed):
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import WebDriverWait

    opened.execute_script(
        "document.addEventListener('copy', e => { window.copied = document.activeElement.value; });"
        "Object.defineProperty(navigator, 'clipboard', {value: {writeText: async t => { window.copied = t; }}});"
    )
    button = opened.find_element("css selector", f"button[data-copy={form}]")
    button.send_keys(Keys.ENTER)
    status = button.find_element("xpath", "../span")
    WebDriverWait(opened, 20).until(lambda _: status.text)
    assert status.text == "Copied."
    copied = opened.execute_script("return window.copied")
    lines = copied.splitlines()
    if form == "csv":
        assert lines[0].startswith("action,mean,s.e.,95% low,95% high")
        assert len(lines) == 1 + len(mixed.actions)
    else:
        assert r"\toprule" in copied
        assert r"95\% low" in copied
        assert lines[0] == r"\begin{table}"


def test_paper_shows_what_the_screen_folds(opened):
    pdf = opened.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
    assert base64.b64decode(pdf["data"])[:5] == b"%PDF-"
    opened.execute_script("window.dispatchEvent(new Event('beforeprint'))")
    closed = opened.find_elements("css selector", "details:not([open])")
    assert closed == []
    opened.execute_script("window.dispatchEvent(new Event('afterprint'))")
    assert opened.find_elements("css selector", "details[open]") == []


def test_hostile_names_run_nothing(offline, light, console_errors, tmp_path):
    import deeppqr
    from season_panel import panel_of

    frame = decisions(2, rows=600).rename({"size": HOSTILE})
    panel = panel_of(frame, state=[HOSTILE, "season"])
    fit = deeppqr.PQR(discount=0.5, anchor="act 00", **light).fit(panel)
    path = fit.report(tmp_path / "odd name #1 ?.html", title=HOSTILE)
    offline.get(path.as_uri())
    assert offline.find_element("tag name", "h1").text == HOSTILE
    assert offline.find_elements("tag name", "img") == []
    assert console_errors() == []
