"""A real browser, where one is installed, and axe, which judges a page's accessibility.

`.ci/run` installs both. Without them these tests skip and say so.
"""

import os
import shutil
from pathlib import Path

import pytest

from drawn_fits import light, mixed  # noqa: F401

ROOT = Path(__file__).parents[2]
# Where `npm install --prefix .tools axe-core` puts it.
AXE = Path(os.environ.get("AXE", ROOT / ".tools/node_modules/axe-core/axe.min.js"))
# The sandbox does not start in containers; without the others Chromium asks for hosts that
# a closed network refuses, many times over.
SWITCHES = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1200,1600",
)
# What axe calls serious; "moderate" and "minor" are advice.
SERIOUS = ("serious", "critical")


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """A headless Chromium with an empty profile, for one page after the other."""
    webdriver = pytest.importorskip("selenium.webdriver")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    driver = shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("needs chromium and chromedriver: apt-get install chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    downloads = tmp_path_factory.mktemp("downloads")
    for switch in (*SWITCHES, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(switch)
    folder = {"download.default_directory": str(downloads)}
    options.add_experimental_option("prefs", folder)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(executable_path=driver)
    opened = webdriver.Chrome(options=options, service=service)
    opened.set_script_timeout(60)
    opened.downloads = downloads  # type: ignore[attr-defined]
    yield opened
    opened.quit()


@pytest.fixture
def findings(browser):
    """A function that gives the serious findings of axe on the page that is open."""
    if not AXE.is_file():
        pytest.skip(f"needs axe: npm install --prefix .tools axe-core, for {AXE}")
    source = AXE.read_text(encoding="utf-8")

    def judge() -> list[str]:
        browser.execute_script(source)
        found = browser.execute_async_script(
            "const done = arguments[0];"
            "axe.run().then((r) => done(r.violations.map((v) =>"
            " ({ id: v.id, impact: v.impact, nodes: v.nodes.map((n) => n.html) }))));"
        )
        return [f"{v['id']}: {v['nodes']}" for v in found if v["impact"] in SERIOUS]

    return judge


@pytest.fixture
def prefer(browser):
    """A function that sets a media feature, such as dark mode, until the test ends."""

    def emulate(**features: str) -> None:
        listed = [
            {"name": name.replace("_", "-"), "value": v} for name, v in features.items()
        ]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": listed})

    yield emulate
    emulate()


@pytest.fixture
def offline(browser):
    """The browser without a network: whatever a page asks for beyond itself fails."""
    browser.execute_cdp_cmd("Network.enable", {})
    state = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
    browser.execute_cdp_cmd("Network.emulateNetworkConditions", state)
    yield browser
    state |= {"offline": False, "downloadThroughput": -1, "uploadThroughput": -1}
    browser.execute_cdp_cmd("Network.emulateNetworkConditions", state)


@pytest.fixture
def console_errors(browser):
    """A function that gives what the page has written to the console as errors."""
    browser.get_log("browser")  # what earlier tests left

    def read() -> list[str]:
        logged = browser.get_log("browser")
        return [each["message"] for each in logged if each["level"] in ("SEVERE", "ERROR")]

    return read


@pytest.fixture
def screen(browser):
    """A function that sets the width of the screen, and dark or light, until the end."""

    def set_to(*, width: int = 1100, scheme: str = "light") -> None:
        metrics = {"width": width, "height": 1400, "deviceScaleFactor": 1}
        browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride", metrics | {"mobile": width < 600}
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    yield set_to
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
