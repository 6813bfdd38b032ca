"""HTML from Python: whatever is not HTML already is escaped, so no name of a feature can become part of the page."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Sequence


class Markup(str):
    """Text that is HTML already and stands in the page as it is."""

    __slots__ = ()


def escaped(value: object) -> Markup:
    """Return a value as HTML: :class:`Markup` as it is, anything else as text."""
    return value if isinstance(value, Markup) else Markup(html.escape(str(value)))


def joined(parts: Iterable[object], between: str = "") -> Markup:
    """Return the parts one after the other."""
    return Markup(between.join(escaped(part) for part in parts))


def element(tag: str, *children: object, **attributes: object) -> Markup:
    """Return an HTML or SVG element.

    ``class_`` becomes ``class`` and ``aria_label`` becomes ``aria-label``. An attribute that is None is left out, and
    one that is True has no value.

    Examples
    --------
    >>> element("p", "a < b", class_="note", hidden=True, id=None)
    '<p class="note" hidden>a &lt; b</p>'
    """
    text = "".join(
        f" {name.strip('_').replace('_', '-')}" + ("" if value is True else f'="{html.escape(str(value))}"')
        for name, value in attributes.items()
        if value is not None and value is not False
    )
    if tag in ("input", "meta", "link", "br"):
        return Markup(f"<{tag}{text}>")
    return Markup(f"<{tag}{text}>{joined(children)}</{tag}>")


def paragraph(*children: object, class_: str | None = None) -> Markup:
    """Return a paragraph."""
    return element("p", *children, class_=class_)


def section(anchor: str, title: str, *children: object) -> Markup:
    """Return a section of the page with its heading."""
    heading = f"{anchor}-title"
    return element("section", element("h2", title, id=heading), *children, id=anchor, aria_labelledby=heading)


def figure(picture: object, caption: str, *, legend: Sequence[tuple[str, str]] = (), title: str = "") -> Markup:
    """Return a picture with its legend, pairs of a CSS class and a label, and the sentences that say what it means."""
    entries = [
        element("li", element("span", class_=f"key {kind}", aria_hidden="true"), label) for kind, label in legend
    ]
    return element(
        "figure",
        element("h3", title) if title else "",
        picture,
        element("ul", *entries, class_="legend") if entries else "",
        element("figcaption", caption),
    )


def table(caption: str, header: Sequence[str], rows: Iterable[Sequence[object]], *, words: int = 1) -> Markup:
    """Return a table whose first column names its rows; the first ``words`` columns hold words, the others numbers.

    A table that is wider than the screen moves in a frame of its own.
    """
    kinds = ["words" if column < words else "number" for column in range(len(header))]
    head = element("tr", *(element("th", name, scope="col", class_=k) for name, k in zip(header, kinds, strict=True)))
    body = [
        element(
            "tr",
            element("th", row[0], scope="row", class_="words"),
            *(element("td", value, class_=kind) for value, kind in zip(row[1:], kinds[1:], strict=True)),
        )
        for row in rows
    ]
    content = element("table", element("caption", caption), element("thead", head), element("tbody", *body))
    return element("div", content, class_="scroll", role="region", aria_label=caption, tabindex="0")


def facts(caption: str, rows: Iterable[tuple[str, object]]) -> Markup:
    """Return a table of two columns: what, and its value."""
    body = [element("tr", element("th", name, scope="row"), element("td", value)) for name, value in rows]
    return element("table", element("caption", caption), element("tbody", *body), class_="facts")


def warning(title: str, *sentences: str) -> Markup:
    """Return a box with something that the reader should know."""
    return element("div", element("strong", title), " ", " ".join(sentences), class_="warning", role="note")


def embedded_json(name: str, value: object) -> Markup:
    """Return data for the script of the page, in which no text can end the element that holds it."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)  # ASCII only
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return element("script", Markup(text), type="application/json", id=name)
