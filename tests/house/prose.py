"""Prose: short paragraphs, plain words, links and pictures that exist."""
import re
from collections.abc import Iterator
from html import unescape
from urllib.parse import unquote

from house.lesson import HEADING, Lesson, rule

LONGEST_PARAGRAPH = 80
BANNED = re.compile(r"\b(simply|just|obviously|of course|trivial(?:ly)?|basically|needless to say)\b", re.IGNORECASE)
CLAIMS = {"R": 7, "A": 11, "H": 8, "P": 13, "M": 14, "B": 10, "C": 7, "F": 8, "N": 8, "G": 8, "X": 5, "S": 2}
CLAIM = re.compile(r"\b([A-Z])(\d{1,2})\b")
NOT_CLAIMS = {"F1"}  # the F1 score
MATHS = re.compile(r"\$\$.*?\$\$|\$[^$\n]+\$", re.DOTALL)
INLINE_CODE = re.compile(r"`[^`\n]*`")
IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)[^)]*\)")
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)[^)]*\)|<a\s[^>]*href=[\"']([^\"']+)")
HTML_IMAGE = re.compile(r"<img\b[^>]*>", re.IGNORECASE)
LESSON_NAME = re.compile(r"\b\d\d_\w+\.ipynb\b")
REMOTE = re.compile(r"[a-z]+:", re.IGNORECASE)
LIST_ITEM = re.compile(r"^\s*(?:[-*+]|\d+\.)\s+", re.MULTILINE)


def words_of(prose: str) -> str:
    """Prose without code, maths and tags: what is read as sentences."""
    return re.sub(r"<[^>]+>", " ", INLINE_CODE.sub(" ", MATHS.sub(" ", prose)))


@rule
def paragraphs_are_short(lesson: Lesson) -> Iterator[str]:
    """An alt text is no paragraph: a map of fifteen lessons needs more words than one."""
    for place, prose in lesson.prose:
        prose = IMAGE.sub("", prose)
        paragraphs = [piece for block in re.split(r"\n\s*\n", prose) for piece in LIST_ITEM.split(block)]
        for paragraph in paragraphs:
            count = len(paragraph.split())
            if count > LONGEST_PARAGRAPH and not paragraph.lstrip().startswith("|"):
                yield f"cell {place}: a paragraph of {count} words ({paragraph[:50].strip()!r}…): split it"


@rule
def words_do_not_belittle(lesson: Lesson) -> Iterator[str]:
    for place, prose in lesson.prose:
        for found in BANNED.finditer(words_of(prose)):
            yield f"cell {place} says {found[0]!r}: leave it out, what is plain to the author may not be to the reader"


@rule
def claim_ids_stay_in_the_tests(lesson: Lesson) -> Iterator[str]:
    texts = [(place, MATHS.sub(" ", prose)) for place, prose in lesson.prose]
    texts += [(place, cell.source) for place, cell in lesson.code]
    texts += [(place, output.get("text", "")) for place, output in lesson.outputs]
    texts += [(place, data.get("text/plain", "")) for place, data in lesson.bundles]
    for place, text in texts:
        for found in CLAIM.finditer(text):
            if found[0] not in NOT_CLAIMS and 1 <= int(found[2]) <= CLAIMS.get(found[1], 0):
                yield f"cell {place} shows the claim id {found[0]}: ids are for tests, readers get the claim itself"


@rule
def images_exist_and_have_alt_text(lesson: Lesson) -> Iterator[str]:
    for place, prose in lesson.prose:
        images = [(alt, source) for alt, source in IMAGE.findall(prose)]
        for tag in HTML_IMAGE.findall(prose):
            attributes = dict(re.findall(r"(\w+)=[\"']([^\"']*)", tag))
            images.append((attributes.get("alt", ""), attributes.get("src", "")))
        for alt, source in images:
            if len(alt.split()) < 2:
                yield f"cell {place}: the image {source} has the alt text {alt!r}: say what it shows"
            if REMOTE.match(source):
                yield f"cell {place}: the image {source} is not in the repository, so it is missing offline"
            elif not (lesson.path.parent / unquote(source)).is_file():
                yield f"cell {place}: there is no image {source}"


@rule
def links_lead_somewhere(lesson: Lesson) -> Iterator[str]:
    for place, prose in lesson.prose:
        for link in [a or b for a, b in LINK.findall(prose)]:
            if REMOTE.match(link):
                continue
            name, _, anchor = unescape(unquote(link)).partition("#")
            target = lesson.path.parent / name if name else lesson.path
            if not target.exists():
                yield f"cell {place}: the link {link} leads nowhere"
            elif anchor and target.suffix == ".ipynb" and anchor not in anchors(Lesson(target)):
                yield f"cell {place}: {target.name} has no heading #{anchor}"
        for name in LESSON_NAME.findall(prose):
            if not (lesson.path.parent / name).exists():
                yield f"cell {place} names the notebook {name}, which does not exist"


def anchors(lesson: Lesson) -> set[str]:
    """JupyterLab's anchors: the heading's text with a hyphen for every blank."""
    return {text.replace(" ", "-") for _, prose in lesson.prose for _, text in HEADING.findall(prose)}
