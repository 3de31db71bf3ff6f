"""Cards of HTML, read as a browser would read them."""

from html.parser import HTMLParser

from adjudge.results import card

ELEMENTS = {"div", "span", "table", "tr", "th", "td", "code"}
ATTRIBUTES = {"style", "title"}


class Read(HTMLParser):
    """Reads a card as a browser would: elements, attributes, text; and whether every element is closed."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.elements, self.attributes, self.styles, self.open, self.texts, self.cells = set(), set(), set(), [], [], []
        self.titles = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.styles |= {value for name, value in attrs if name == "style"}
        self.titles += [value for name, value in attrs if name == "title"]
        self.open.append(tag)
        if tag == "td":
            self.cells.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)
        if "td" in self.open:
            self.cells[-1] += data

    def handle_comment(self, data):
        raise AssertionError(f"a comment: {data}")

    def handle_decl(self, decl):
        raise AssertionError(f"a declaration: {decl}")

    def handle_pi(self, data):
        raise AssertionError(f"an instruction: {data}")

    @property
    def text(self):
        return " ".join(self.texts)


def read(shown):
    """Returns what a browser reads of a card, which has only the expected elements, attributes and styles."""
    html = shown if isinstance(shown, str) else shown._repr_html_()
    out = Read(html)
    assert out.elements <= ELEMENTS
    assert out.attributes <= ATTRIBUTES
    assert out.styles <= set(card.CARD_STYLES.values())
    assert not out.open
    assert "url(" not in "".join(out.styles)
    return out


NASTY = [
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    '" onmouseover="alert(1)',
    "<!-- x",
    "&lt;b&gt;",
    "]]>",
]
