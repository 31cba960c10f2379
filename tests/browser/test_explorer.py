"""The explorer in a real browser: what a person does with it, and what others may not."""

import threading
import time
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

pytest.importorskip("selenium")
pytest.importorskip("uvicorn")

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from deeppqr.explore import serve

PATIENCE = 20  # seconds; for machines that do other things at the same time


def served(fit, name="run"):
    """The address of a server of its own thread, until the tests end."""
    found: list[str] = []
    options = {"name": name, "started": found.append}
    threading.Thread(target=serve, args=(fit,), kwargs=options, daemon=True).start()
    while not found:
        time.sleep(0.01)
    return found[0]


@pytest.fixture(scope="module")
def address(hostile_fit):
    return served(hostile_fit)


@pytest.fixture
def page(browser, address):
    """The page, filled for the first time; errors on the console fail the test."""
    *others, first = reversed(browser.window_handles)  # tabs that a failed test left open
    for other in others:
        browser.switch_to.window(other)
        browser.close()
    browser.switch_to.window(first)
    browser.get_log("browser")  # what other pages left
    browser.get(address)
    answered(browser, 1)
    yield browser
    assert [entry["message"] for entry in browser.get_log("browser")] == []


def answered(browser, times):
    """Wait until the page has shown so many rounds of answers."""
    count = lambda b: int(
        b.find_element(By.TAG_NAME, "body").get_attribute("data-answered") or 0
    )
    WebDriverWait(browser, PATIENCE).until(lambda b: count(b) >= times)


def rewards(browser):
    """Read in one go: the table may be drawn anew between two questions."""
    return browser.execute_script(
        "return [...document.querySelectorAll('#actions tbody tr')]"
        ".map(row => row.querySelector('td').textContent);"
    )


def downloaded(browser, button, ending):
    before = set(browser.downloads.iterdir())
    browser.find_element(By.ID, button).click()

    def fresh(b):
        """The file once it has its name and its bytes, and no part of it is left."""
        files = set(b.downloads.iterdir()) - before
        done = {path for path in files if path.suffix == ending and path.stat().st_size}
        return done if done and files == done else None

    found = WebDriverWait(browser, PATIENCE).until(fresh)
    assert found
    return found.pop()


def test_it_shows_the_typical_state(page, hostile_fit):
    rows = page.find_elements(By.CSS_SELECTOR, "#actions tbody tr")
    assert len(rows) == len(hostile_fit.actions)
    assert page.find_element(By.ID, "place").text == "Inside the data."
    assert page.find_element(By.CSS_SELECTOR, "#curve svg path")


def test_names_are_text(page):
    """Markup in labels, levels and columns is shown and never parsed."""
    text = page.find_element(By.TAG_NAME, "body").text
    assert "<script>alert(2)</script>" in text
    assert "<img src=x onerror=alert(1)>" in text
    assert page.find_elements(By.CSS_SELECTOR, "img, b, main script") == []
    assert "\u202e" not in text
    options = page.find_elements(By.CSS_SELECTOR, "#column-1 option")
    assert "<b>x</b>" in [option.text for option in options]


def test_moving_a_slider_with_the_keyboard(page, hostile_fit):
    slider = page.find_element(By.ID, "column-0")
    for _ in range(5):
        slider.send_keys(Keys.ARROW_RIGHT)
    answered(page, 2)
    value = float(slider.get_attribute("value"))
    typed = page.find_element(By.CSS_SELECTOR, "#columns .pair input[type=number]")
    assert float(typed.get_attribute("value")) == value
    level = Select(page.find_element(By.ID, "column-1"))
    level.select_by_visible_text("north")
    is_open = (
        Select(page.find_element(By.ID, "column-2")).first_selected_option.text == "true"
    )
    state = np.array([[value, "north", is_open]], dtype=object)
    WebDriverWait(page, PATIENCE).until(
        lambda b: np.allclose(
            [float(text.replace("\u2212", "-")) for text in rewards(b)],
            hostile_fit.reward(state)[0],
            atol=5e-4,  # what three or four printed digits leave
        )
    )


def test_bad_values_are_refused_and_forgotten(page):
    before = rewards(page)
    typed = page.find_element(By.CSS_SELECTOR, "#columns .pair input[type=number]")
    typed.send_keys(Keys.CONTROL, "a", Keys.NULL, Keys.BACKSPACE)
    problem = page.find_element(By.ID, "state-problem")
    WebDriverWait(page, PATIENCE).until(lambda b: problem.is_displayed())
    assert "must be a number" in problem.text
    assert typed.get_attribute("aria-invalid") == "true"
    typed.send_keys("1e200")
    WebDriverWait(page, PATIENCE).until(lambda b: "finite number" in problem.text)
    page.find_element(By.ID, "typical").click()
    WebDriverWait(page, PATIENCE).until(lambda b: not problem.is_displayed())
    assert rewards(page) == before
    # The browser itself notes a refused question, which is as it should be.
    (noted,) = page.get_log("browser")
    assert "422" in noted["message"]


def test_a_counterfactual_by_keyboard(page, hostile_fit):
    number = page.find_element(By.ID, "scenario-number")
    number.clear()
    number.send_keys("1.5", Keys.ENTER)
    answer = page.find_element(By.ID, "scenario-answer")
    WebDriverWait(page, PATIENCE).until(lambda b: answer.is_displayed())
    assert page.find_element(By.ID, "scenario-title").text == "price = 1.5"
    path = downloaded(page, "scenario-csv", ".csv")
    assert path.name == "run-what-if.csv"
    table = pl.read_csv(path)
    states = hostile_fit.encoding.decode(hostile_fit.seen.state)
    states[:, 0] = 1.5
    expected = np.exp(hostile_fit.log_policy(states)).mean(axis=0)
    found = table.filter(pl.col("quantity") == "probability")["after"]
    np.testing.assert_allclose(found, expected)


def test_downloads(page):
    figure = downloaded(page, "curve-svg", ".svg")
    root = ET.fromstring(figure.read_text(encoding="utf-8"))
    text = "".join(root.itertext())
    assert "price" in text
    assert not [node for node in root.iter() if node.tag.endswith(("script", "image"))]
    picture = downloaded(page, "curve-png", ".png").read_bytes()
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    table = pl.read_csv(downloaded(page, "state-csv", ".csv"))
    assert "'=cmd()" in table["action"].to_list()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_accessibility(page, prefer, findings, scheme):
    prefer(prefers_color_scheme=scheme)
    page.find_element(By.ID, "run").click()
    answer = page.find_element(By.ID, "scenario-answer")
    WebDriverWait(page, PATIENCE).until(lambda b: answer.is_displayed())
    assert findings() == []


def test_every_control_is_reached_by_tab(page):
    """The order of tabbing visits all that can be operated, and nothing hidden."""
    operable = page.execute_script(
        "return [...document.querySelectorAll('input, select, button')]"
        ".filter((e) => e.offsetParent !== null).map((e) => e.id || e.value || e.type)"
    )
    body = page.find_element(By.TAG_NAME, "body")
    visited = []
    for _ in range(3 * len(operable)):
        body.send_keys(Keys.TAB)
        focused = "const e = document.activeElement; return e.id || e.value || e.type"
        visited.append(page.execute_script(focused))
        body = page.switch_to.active_element
    assert set(operable) <= set(visited)


def test_two_tabs_are_apart(page, address):
    first = rewards(page)
    page.switch_to.new_window("tab")
    page.get(address)
    answered(page, 1)
    page.find_element(By.ID, "column-0").send_keys(Keys.END)
    answered(page, 2)
    page.close()
    page.switch_to.window(page.window_handles[0])
    assert rewards(page) == first


def test_other_origins_read_nothing(browser, address, tmp_path):
    """A page from disk that knows even the secret gets no answer."""
    browser.get_log("browser")
    other = tmp_path / "other.html"
    other.write_text("<!doctype html><title>other</title>")
    browser.get(other.as_uri())
    for options in ("{}", "{mode: 'no-cors'}"):
        script = (
            "const done = arguments[1];"
            f"fetch(arguments[0] + 'fit.json', {options})"
            ".then((r) => r.text()).then(done, () => done(''))"
        )
        assert browser.execute_async_script(script, address) in (None, "")
    frame = (
        "const f = document.createElement('iframe'), done = arguments[1];"
        "f.onload = () => { let t = ''; try { t = f.contentDocument.body.innerText; }"
        " catch (e) {} done(t); }; f.src = arguments[0]; document.body.append(f);"
    )
    assert not browser.execute_async_script(frame, address)
    browser.get_log("browser")  # the refusals, as the browser notes them


def test_a_name_of_any_length_and_direction(browser, hostile_fit):
    """10,000 letters do not break the page out of its width."""
    browser.get_log("browser")
    actions = ("w" * 10_000, "\u202e" + "مرحبا" * 50, "../../etc/passwd")
    browser.get(served(replace(hostile_fit, actions=actions), name="../../x\u202ey"))
    answered(browser, 1)
    assert browser.execute_script(
        "return document.documentElement.scrollWidth <= window.innerWidth"
    )
    path = downloaded(browser, "state-csv", ".csv")
    assert path.name == "x-y-state.csv"
    assert [entry["message"] for entry in browser.get_log("browser")] == []


@pytest.mark.slow
def test_it_is_quick(browser, tmp_path):
    """A fit of 50,000 decisions: painted within 2 s, a slider's move shown within 0.2 s."""
    from deeppqr import PQR
    from deeppqr.worlds import PaperWorld

    panel = PaperWorld(p=5).simulate(steps=50_000, seed=1)
    address = served(PQR(discount=0.9, anchor=0).fit(panel))
    times = []
    for _ in range(3):
        begun = time.perf_counter()
        browser.get(address)
        answered(browser, 1)
        times.append(time.perf_counter() - begun)
    moves = browser.execute_async_script(
        """
        const done = arguments[0], slider = document.getElementById("column-0");
        const body = document.body, moves = [];
        const count = () => Number(body.dataset.answered);
        const once = (left) => {
          if (!left) return done(moves);
          const begun = performance.now(), before = count();
          slider.stepUp();
          slider.dispatchEvent(new Event("input"));
          const wait = () => count() > before
            ? (moves.push(performance.now() - begun), once(left - 1))
            : requestAnimationFrame(wait);
          wait();
        };
        once(20);
        """
    )
    print(f"first paint {min(times):.2f} s; moves {np.median(moves):.0f} ms (median)")
    assert min(times) < 2.0
    assert np.median(moves) < 200.0
