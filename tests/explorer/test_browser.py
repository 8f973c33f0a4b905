"""The page in a browser: no errors, keys and pointers work, it fits a phone.

Skipped where selenium or Chromium is missing. Nothing is asked of other computers.
"""

import contextlib
import csv
import io
import shutil
from html import escape

import numpy as np
import pytest

from kexpfam.explorer import report
from kexpfam.explorer.notebook import answered, embedded_page
from tests.explorer.conftest import serving

webdriver = pytest.importorskip("selenium.webdriver")
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")

pytestmark = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None, reason="Chromium is not installed"
)

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


# Of pictures that are visible: width by height as shown and as drawn, and how much
# smaller they are shown.
SHAPES = """
  return [...document.querySelectorAll(arguments[0])].filter((s) => s.clientWidth)
    .map((s) => { const shown = s.getBoundingClientRect(), drawn = s.viewBox.baseVal;
      return [shown.width / shown.height, drawn.width / drawn.height,
              shown.width / drawn.width]; });
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    profile = tmp_path_factory.mktemp("profile")
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


def opened(browser, address, width=1280, height=800):
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get_log("browser")
    browser.get(address)
    wait_for(browser, lambda: drawn(browser) > 0)
    return browser


def wait_for(browser, condition):
    WebDriverWait(browser, 30, poll_frequency=0.05).until(lambda _: condition())


def drawn(browser):
    """How often the page has drawn something new."""
    count = browser.execute_script("return document.documentElement.dataset.drawn")
    return int(count or 0)


@contextlib.contextmanager
def redrawn(browser):
    """Wait until something new was drawn."""
    before = drawn(browser)
    yield
    wait_for(browser, lambda: drawn(browser) > before)


@pytest.fixture
def page(browser, server):
    return opened(browser, server.address)


def curve(page):
    return page.find_element(By.CSS_SELECTOR, "#density-content .curve")


def path(page):
    return page.execute_script(
        "return document.querySelector('#density-content .curve').getAttribute('d')"
    )


def saved_text(page, card, kind):
    """What a download button would save, as text, or its size for pictures."""
    return page.execute_async_script(
        """
        const done = arguments[2], make = URL.createObjectURL;
        HTMLAnchorElement.prototype.click = () => {};
        URL.createObjectURL = (blob) => {
          if (blob.type === "image/svg+xml") return make(blob);
          URL.createObjectURL = make;
          (blob.type === "image/png" ? Promise.resolve(blob.size) : blob.text())
            .then(done);
          return make(blob);
        };
        const label = `Download ${arguments[0]} as ${arguments[1]}`;
        document.querySelector(`[aria-label="${label}"]`).click();
        """,
        card,
        kind,
    )


def test_the_page_loads_without_errors_and_shows_its_cards(page):
    for card in ("density", "panel", "curve", "draws", "calibration", "numbers"):
        assert page.find_element(By.ID, card).is_displayed(), card
    for card in ("curve", "draws"):
        wait_for(page, lambda c=card: page.find_elements(By.CSS_SELECTOR, f"#{c} svg"))
    # Calibration is there without a click.
    wait_for(page, lambda: page.find_elements(By.CSS_SELECTOR, "#pit-picture svg"))
    note = page.find_element(By.ID, "calibration-note").text
    assert note.startswith("The model was fitted to these rows")
    assert page.get_log("browser") == []


def test_the_density_fills_the_width_unless_the_whole_range_is_wanted(page):
    extent = """
      const box = document.querySelector("#density-content .curve").getBBox();
      return box.width / document.querySelector("#density-chart").clientWidth;
    """
    seen = """
      const d = document.querySelector("#density-content .region").getBBox();
      return d.width / document.querySelector("#density-chart").clientWidth;
    """
    assert page.execute_script(extent) > 0.9
    zoomed = page.execute_script(seen)
    assert zoomed > 0.3
    with redrawn(page):
        page.find_element(By.ID, "zoom").click()
    assert page.execute_script(seen) < zoomed


def test_a_pinned_density_is_compared_with(page):
    with redrawn(page):
        page.find_element(By.ID, "pin").click()
    first = page.find_element(By.ID, "pinned").get_attribute("d")
    assert first.startswith("M")
    before = page.find_element(By.CSS_SELECTOR, "#density-legend b").text
    with redrawn(page):
        page.find_element(By.ID, "control-0").send_keys(*[Keys.ARROW_RIGHT] * 8)
    wait_for(page, lambda: "→" in page.find_element(By.ID, "pinned-text").text[8:])
    cells = page.find_elements(By.CSS_SELECTOR, "#numbers-body tr:nth-child(2) td")
    assert cells[0].text == before
    assert page.find_element(By.CSS_SELECTOR, "#density-legend .key-pinned")
    page.find_element(By.ID, "pin").click()
    wait_for(page, lambda: not page.find_element(By.ID, "pinned").get_attribute("d"))


def test_a_density_that_is_pinned_in_motion_has_all_numbers(page):
    area = page.find_element(By.ID, "control-0")
    page.execute_script(
        "arguments[0].value = arguments[0].max;"
        "arguments[0].dispatchEvent(new Event('input'));"
        "document.getElementById('pin').click();",
        area,
    )
    wait_for(page, lambda: page.find_element(By.ID, "pinned").get_attribute("d"))
    # At once, since rows are replaced when numbers of the last position come in.
    numbers = (
        "return [...document.querySelectorAll('#numbers-body tr')]"
        ".map(row => row.querySelector('td').textContent)"
    )
    wait_for(page, lambda: "…" not in page.execute_script(numbers))
    assert len(page.execute_script(numbers)) > 10
    page.find_element(By.ID, "pin").click()


def test_conditions_that_go_on_below_are_cued(browser, server):
    page = opened(browser, server.address, height=420)
    wait_for(page, lambda: page.find_element(By.ID, "more").is_displayed())
    panel = page.find_element(By.ID, "panel")
    page.execute_script("arguments[0].scrollTo(0, 9999)", panel)
    wait_for(page, lambda: not page.find_element(By.ID, "more").is_displayed())


def test_curves_are_averaged_or_where_the_sliders_are(page):
    wait_for(page, lambda: page.find_elements(By.CSS_SELECTOR, "#curve svg"))
    curve = "return document.querySelector('#curve-picture .curve').outerHTML"
    before = page.execute_script(curve)
    select = page.find_element(By.ID, "curve-others")
    select.find_elements(By.TAG_NAME, "option")[1].click()
    wait_for(page, lambda: page.execute_script(curve) != before)


def test_a_slider_moved_by_keys_changes_the_curve(page):
    slider = page.find_element(By.ID, "control-0")
    before, value = path(page), float(slider.get_property("value"))
    slider.send_keys(Keys.ARROW_RIGHT * 5)
    wait_for(page, lambda: path(page) != before)
    assert float(slider.get_property("value")) > value
    shown = page.find_element(By.CSS_SELECTOR, "#controls input[type=number]")
    assert shown.get_property("value") == slider.get_property("value")
    table = page.find_element(By.ID, "numbers")
    wait_for(page, lambda: "…" not in table.text)  # all numbers, when it rests


def test_categories_and_levels_change_the_picture(page, view):
    before = path(page)
    city = [control.name for control in view.subject.controls].index("city")
    page.find_element(By.ID, f"control-{city}").send_keys("Oslo")
    wait_for(page, lambda: path(page) != before)
    legend = page.find_element(By.ID, "density-legend")
    assert "90 % interval" in legend.text
    page.find_element(By.ID, "region").send_keys("highest")
    page.find_element(By.ID, "level").send_keys("50")
    wait_for(page, lambda: "50 % highest density" in legend.text)


def test_the_threshold_moved_by_keys_changes_the_probability(page, view):
    handle = page.find_element(By.ID, "threshold")
    text = page.find_element(By.ID, "tail-text")
    before = text.text
    page.execute_script("arguments[0].focus()", handle)
    ActionChains(page).send_keys(Keys.ARROW_RIGHT * 5).perform()
    assert text.text != before
    t = float(handle.get_attribute("aria-valuenow"))
    exact = view.subject.model.given(view.subject.row({}))[0].sf(np.array([t])).item()
    assert f"P(price > t) = {100 * exact:.1f} %" in text.text
    ActionChains(page).send_keys(Keys.HOME).perform()
    low = float(handle.get_attribute("aria-valuemin"))
    assert float(handle.get_attribute("aria-valuenow")) == low


def test_the_threshold_is_dragged_by_a_pointer(page):
    handle = page.find_element(By.ID, "threshold-handle")
    before = float(page.find_element(By.ID, "t").get_property("value"))
    ActionChains(page).drag_and_drop_by_offset(handle, 60, 0).perform()
    assert float(page.find_element(By.ID, "t").get_property("value")) > before


def test_a_row_of_the_data_sets_the_controls(page, saved):
    page.find_element(By.ID, "next").click()
    legend = page.find_element(By.ID, "density-legend")
    wait_for(page, lambda: "observed" in legend.text)
    shown = page.find_element(By.CSS_SELECTOR, "#controls input[type=number]")
    assert float(shown.get_property("value")) == saved.X[0, 0]
    page.find_element(By.ID, "random").click()
    page.find_element(By.ID, "reset").click()
    wait_for(page, lambda: "observed" not in legend.text)


def test_downloads_hold_what_is_shown(page, view):
    rows = list(csv.DictReader(io.StringIO(saved_text(page, "density", "CSV"))))
    y = np.array([float(row["y"]) for row in rows])
    density = np.array([float(row["density"]) for row in rows])
    p = view.subject.model.given(view.subject.row({}))[0]
    np.testing.assert_allclose(density, p.pdf(y), rtol=1e-9)
    numbers = saved_text(page, "numbers", "CSV")
    assert numbers.startswith(f"number,value\nmean,{p.mean()}\n")
    assert saved_text(page, "density", "PNG") > 5000


@pytest.mark.parametrize("kind", ["server", "joint"])
def test_a_phone_needs_no_scrolling_sideways(browser, server, joint_view, kind):
    def check(address):
        page = opened(browser, address, 390, 844)
        widths = "return [document.scrollingElement.scrollWidth, window.innerWidth]"
        wide, inner = page.execute_script(widths)
        assert wide <= inner
        assert page.get_log("browser") == []

    if kind == "server":
        check(server.address)
        return
    with serving(joint_view) as running:
        check(running.address)


@pytest.mark.parametrize("width", [390, 1280])
def test_pairs_leave_no_gaps_above_and_below(browser, joint_view, tmp_path, width):
    """A picture that is made narrower is made lower too, in a report as well."""
    file = tmp_path / "report.html"
    file.write_text(report(joint_view), encoding="utf-8")
    with serving(joint_view) as running:
        opened(browser, running.address, width, 844)
        shapes = browser.execute_script(SHAPES, "#pairs-picture svg")
    browser.get(file.as_uri())
    shapes += browser.execute_script(SHAPES, ".picture svg")
    assert len(shapes) == 2
    for shown, drawn, share in shapes:
        # Sizes are rounded to pixels.
        assert shown == pytest.approx(drawn, rel=0.01)
        # Letters are nearly as large as they were drawn.
        assert share > 0.7


def test_a_joint_page_follows_what_is_held_fixed(browser, joint_view):
    with serving(joint_view) as running:
        page = opened(browser, running.address)
        picture = page.find_element(By.ID, "pairs-picture")
        before = picture.get_property("innerHTML")
        page.find_element(By.ID, "control-0").send_keys(Keys.ARROW_RIGHT)
        note = page.find_element(By.ID, "pairs-note")
        wait_for(page, lambda: "Draws given area" in note.text)
        assert picture.get_property("innerHTML") != before
        assert page.find_elements(By.CSS_SELECTOR, "#graph-picture .node")
        assert page.get_log("browser") == []


def test_a_server_that_does_not_answer_is_said_until_it_does(page):
    def cut_off(offline):
        state = {"offline": offline, "latency": 0}
        rates = {"downloadThroughput": -1, "uploadThroughput": -1}
        page.execute_cdp_cmd("Network.emulateNetworkConditions", {**state, **rates})

    page.execute_cdp_cmd("Network.enable", {})
    problem = page.find_element(By.ID, "problem")
    slider = page.find_element(By.ID, "control-0")
    cut_off(True)
    try:
        slider.send_keys(Keys.ARROW_RIGHT)
        wait_for(page, problem.is_displayed)
        assert "does not answer" in problem.text
    finally:
        cut_off(False)
    slider.send_keys(Keys.ARROW_RIGHT)
    wait_for(page, lambda: not problem.is_displayed())


def test_the_page_of_a_notebook_asks_whoever_shows_it(browser, view, tmp_path):
    # As the widget does: a frame without an origin, whose messages are handed on.
    frame = f'<iframe sandbox="allow-scripts" srcdoc="{escape(embedded_page())}">'
    relay = (
        "<script>window.inbox = []; addEventListener('message', (e) => "
        "inbox.push(e.data.kexpfam));</script>"
    )
    path = tmp_path / "notebook.html"
    path.write_text(f"<!doctype html>{relay}{frame}</iframe>", encoding="utf-8")
    browser.get(path.as_uri())
    reply = (
        "document.querySelector('iframe').contentWindow"
        ".postMessage({ kexpfam: arguments[0] }, '*')"
    )
    names = set()

    def served():
        for question in browser.execute_script("return inbox.splice(0)"):
            names.add(question["name"])
            browser.execute_script(reply, answered(view, question))
        return {"description", "density", "curve", "calibration"} <= names

    wait_for(browser, served)
    browser.switch_to.frame(0)
    assert "90 %" in browser.find_element(By.ID, "density-legend").text
    browser.switch_to.default_content()
