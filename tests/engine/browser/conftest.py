"""A real headless Chromium; without it these tests fail in CI and say what is missing elsewhere."""

from __future__ import annotations

import os
import shutil

import pytest

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def _missing(reason):
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def browser():
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        _missing("no chromium on the path; apt-get install chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _missing("no playwright; pip install playwright")
    with sync_playwright() as play:
        opened = play.chromium.launch(executable_path=program, args=list(FLAGS))
        yield opened
        opened.close()


class Visit:
    """A page that was opened, with everything it asked for and complained about."""

    def __init__(self, context, path, fragment=""):
        self.requests, self.messages = [], []
        self.page = context.new_page()
        self.page.on("console", lambda message: self.messages.append(message.text))
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri() + fragment)

    @property
    def outside(self):
        return [url for url in self.requests if not url.startswith(("file:", "data:"))]


@pytest.fixture
def visit(browser):
    contexts = []

    def open_page(path, fragment="", **options):
        contexts.append(browser.new_context(**options))
        return Visit(contexts[-1], path, fragment)

    yield open_page
    for context in contexts:
        context.close()
