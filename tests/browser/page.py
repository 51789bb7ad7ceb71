"""A notebook open in JupyterLab: run it, watch for every kind of error, use its controls by keyboard."""
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from playwright.sync_api import Locator, Page

START_SECONDS = 60
RUN_SECONDS = 150
REACTION_SECONDS = 3
ANSWER_SECONDS = 30
CONTROLS = ".noUi-handle, select, input, textarea, button"
ERRORS_IN_PAGE = """() => [
    ...document.querySelectorAll('[data-mime-type$="jupyter.error"], [data-mime-type$="jupyter.stderr"], .tl-error'),
    ...[...document.querySelectorAll('.jp-OutputArea-output')].filter(
        e => /Error displaying widget|Error creating widget|Failed to load model/.test(e.textContent)),
].map(e => e.textContent.trim().slice(-500))"""
FINISHED = """() => document.querySelector('[data-mime-type$="jupyter.error"], [data-mime-type$="jupyter.stderr"]') ||
    [...document.querySelectorAll('.jp-CodeCell')].every(cell => /^\\[\\d+\\]:$/.test(
        cell.querySelector('.jp-InputPrompt').textContent.trim()))"""
SHOWN = """box => { const picture = box.querySelector('img.tl-picture');
    return {picture: picture && picture.src, alt: picture && picture.alt,
            sentence: box.querySelector('.tl-sentence')?.textContent,
            error: box.querySelector('.tl-error')?.textContent ?? null}; }"""
VIEW = "box => box.querySelector('img.tl-picture')?.closest('.widget-html')?.innerHTML"
LOADED = """box => { const picture = box.querySelector('img.tl-picture');
    return picture && picture.complete && picture.naturalWidth > 0; }"""
COLOURS = """box => { const picture = box.querySelector('img.tl-picture');
    const [width, height] = [picture.naturalWidth, picture.naturalHeight];
    const context = new OffscreenCanvas(width, height).getContext('2d');
    context.drawImage(picture, 0, 0);
    return new Set(new Uint32Array(context.getImageData(0, 0, width, height).data.buffer)).size; }"""


class Kernel:
    """Reads the page's websocket: which messages the kernel has not answered yet, and errors that no cell shows."""

    def __init__(self, page: Page):
        self.errors: list[str] = []
        self.has_answered = False
        self.sent = 0
        self.pictures = 0  # pictures that the kernel has sent to widgets
        self._open: set[bytes] = set()
        page.on("websocket", self._watch)

    @property
    def busy(self) -> bool:
        return bool(self._open)

    def _watch(self, socket) -> None:
        if "/channels" in socket.url:
            socket.on("framesent", lambda data: self._sent(as_bytes(data)))
            socket.on("framereceived", lambda data: self._received(as_bytes(data)))

    def _sent(self, frame: bytes) -> None:
        if re.search(rb'"msg_type":\s*"comm_msg"', frame):
            self.sent += 1
            self._open.add(message_ids(frame)[0])

    def _received(self, frame: bytes) -> None:
        if re.search(rb'"execution_state":\s*"idle"', frame):
            self.has_answered = True
            self._open.difference_update(message_ids(frame))
        self.pictures += b"tl-picture" in frame
        is_error = re.search(rb'"msg_type":\s*"error"', frame)
        if is_error or (re.search(rb'"name":\s*"stderr"', frame) and b"Traceback" in frame):
            self.errors.append(frame.decode("utf-8", "replace")[-1_000:])


def wait(page: Page, ready: Callable[[], bool], seconds: float, otherwise: str) -> None:
    """Wait for something that the page's events tell us; they arrive while the page waits."""
    end = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > end:
            raise TimeoutError(f"{otherwise} within {seconds} s")
        page.wait_for_timeout(20)


def as_bytes(data: bytes | str) -> bytes:
    return data if isinstance(data, bytes) else data.encode()


def message_ids(frame: bytes) -> list[bytes]:
    return re.findall(rb'"msg_id":\s*"([^"]+)"', frame)


@dataclass(frozen=True)
class Move:
    """What the use of one control did to its explorer."""

    control: str
    before: dict
    after: dict

    @property
    def changed(self) -> set[str]:
        return {name for name in ("picture", "alt", "sentence") if self.before[name] != self.after[name]}


class OpenNotebook:
    """One notebook in JupyterLab's single-document view."""

    def __init__(self, page: Page, url: str, name: str):
        self.page = page
        self.kernel = Kernel(page)
        self.console: list[str] = []
        self.far_requests: list[str] = []
        page.on("console", lambda message: message.type == "error" and self.console.append(message.text[:500]))
        page.on("pageerror", lambda error: self.console.append(f"uncaught: {error}"[:500]))
        page.on("request", self._note_request)
        page.goto(f"{url}/doc/tree/notebooks/{name}", wait_until="domcontentloaded")
        page.locator(".jp-NotebookPanel .jp-Cell").first.wait_for(timeout=START_SECONDS * 1000)

    def _note_request(self, request) -> None:
        if urlsplit(request.url).hostname not in (None, "127.0.0.1"):
            self.far_requests.append(request.url[:200])

    def run_all(self, explorers: int, questions: int) -> None:
        """Run every cell; returns when all have their number, or one its error, and the widgets are on the page."""
        self.page.get_by_text("Python 3 (ipykernel) | Idle").wait_for(timeout=START_SECONDS * 1000)
        wait(self.page, lambda: self.kernel.has_answered, START_SECONDS, "the kernel has not started")
        self.page.get_by_role("menuitem", name="Run", exact=True).click()
        self.page.get_by_role("menuitem", name=re.compile("^Run All Cells")).click()
        self.page.wait_for_function(FINISHED, timeout=RUN_SECONDS * 1000)
        if not self.errors():
            self.page.wait_for_function(
                """([explorers, questions]) => document.querySelectorAll('.tl-explorer').length >= explorers
                    && document.querySelectorAll('.tl-question').length >= questions""",
                arg=[explorers, questions],
                timeout=ANSWER_SECONDS * 1000,
            )

    def errors(self) -> list[str]:
        """Everything that went wrong so far, in cells, in widget callbacks, in scripts, or towards the network."""
        return self.page.evaluate(ERRORS_IN_PAGE) + self.kernel.errors + self.console + self.far_requests

    @property
    def explorers(self) -> list[Locator]:
        return self.page.locator(".tl-explorer:visible").all()

    @property
    def questions(self) -> list[Locator]:
        return self.page.locator(".tl-question:visible").all()

    def controls(self, box: Locator) -> list[Locator]:
        return [control for control in box.locator(CONTROLS).all() if control.is_visible() and control.is_enabled()]

    def wait_until_answered(self, sent_before: int) -> None:
        """Wait for a message to go out since `sent_before`, and for the kernel to deal with all that are out."""
        wait(self.page, lambda: self.kernel.sent > sent_before, REACTION_SECONDS, "nothing was sent to the kernel")
        wait(self.page, lambda: not self.kernel.busy, ANSWER_SECONDS, "the kernel did not answer")

    def move(self, box: Locator, control: Locator) -> Move:
        """Use one control of an explorer by keyboard and wait until its picture is the new one.

        What was typed is put back as it was: words and numbers may be refused, and the refusal would stay.
        """
        before = box.evaluate(SHOWN)
        typed = control.evaluate("e => e.matches('[type=text], [type=number], textarea')")
        text = control.input_value() if typed else None
        name = f"{kind_of(control)} {label_of(control)!r}"
        with self._redrawn(box, name):
            press(self.page, control)
        after = box.evaluate(SHOWN)
        if text is not None:
            with self._redrawn(box, name):
                control.fill(text)
                self.page.keyboard.press("Tab")
        return Move(name, before, after)

    @contextmanager
    def _redrawn(self, box: Locator, name: str) -> Iterator[None]:
        """Wait until the kernel has answered what happens inside, and the page shows the answer."""
        view, sent, pictures = box.evaluate(VIEW), self.kernel.sent, self.kernel.pictures
        yield
        try:
            self.wait_until_answered(sent)
        except TimeoutError as error:
            raise AssertionError(f"{name}, used by keyboard: {error}") from None
        if self.kernel.pictures > pictures:
            self.page.wait_for_function(f"([box, view]) => ({VIEW})(box) !== view", arg=[box.element_handle(), view])
        self.page.wait_for_function(f"box => ({LOADED})(box)", arg=box.element_handle())

    def answer(self, question: Locator) -> str:
        """Answer a question by keyboard, rightly or not; returns what it says then."""
        sent, said = self.kernel.sent, question.inner_text()
        control = self.controls(question)[0]
        control.focus()
        if control.get_attribute("type") == "radio":
            self.page.keyboard.press("Space")
            self.page.keyboard.press("ArrowRight")
        else:
            self.page.keyboard.type("1")
            self.page.keyboard.press("Tab")
        self.wait_until_answered(sent)
        sent = self.kernel.sent
        question.get_by_role("button", name="Commit answer").focus()
        self.page.keyboard.press("Space")
        self.wait_until_answered(sent)
        self.page.wait_for_function("([box, said]) => box.innerText !== said", arg=[question.element_handle(), said])
        return question.inner_text()

    def colours(self, box: Locator) -> int:
        """How many colours the picture of an explorer holds; a blank one has one."""
        self.page.wait_for_function(f"box => ({LOADED})(box)", arg=box.element_handle())
        return box.evaluate(COLOURS)


def label_of(control: Locator) -> str:
    """The visible text that names a control: its own, or that of the widget around it."""
    return control.evaluate(
        """e => { const widget = e.closest('.jupyter-widgets') ?? e;
            const labels = [...widget.querySelectorAll('label, .widget-label, .widget-label-basic')];
            const texts = e.tagName === 'BUTTON' ? [e, ...labels] : labels;
            return texts.map(text => text.textContent.trim()).find(text => text) ?? ''; }"""
    )


def kind_of(control: Locator) -> str:
    return control.evaluate("e => e.classList.contains('noUi-handle') ? 'slider' : e.type ?? e.tagName")


def press(page: Page, control: Locator) -> None:
    """Use a control the way a reader without a mouse does."""
    kind = kind_of(control)
    control.focus()
    if kind == "slider":
        at_end = control.evaluate("e => Number(e.ariaValueNow) >= Number(e.ariaValueMax)")
        page.keyboard.press("ArrowLeft" if at_end else "ArrowRight")
    elif kind == "number":
        at_end = control.evaluate("e => e.max !== '' && Number(e.value) >= Number(e.max)")
        page.keyboard.press("ArrowDown" if at_end else "ArrowUp")
        page.keyboard.press("Enter")
    elif kind.startswith("select"):  # JupyterLab takes the arrows for itself until the list is open
        at_end = control.evaluate("e => e.selectedIndex === e.options.length - 1")
        for key in ("Space", "ArrowUp" if at_end else "ArrowDown", "Enter"):
            page.keyboard.press(key)
    elif kind == "radio":  # JupyterLab takes up and down for itself, left and right reach the radio buttons
        page.keyboard.press("ArrowRight")
    elif kind in ("text", "textarea"):
        page.keyboard.press("End")
        page.keyboard.press("Backspace")
        page.keyboard.press("Tab")
    else:  # checkboxes and buttons
        page.keyboard.press("Space")
