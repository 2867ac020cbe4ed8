"""What every picture must be: XML that is well formed, of few elements and attributes, with a name
and a description, on a card of its own, and with every text within it.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

from dimsolve.show.svg import NAMES

SPACE = "{http://www.w3.org/2000/svg}"
PLACE = {"width", "height", "viewBox", "x", "y", "rx", "d", "transform"}
LOOK = {"fill", "stroke", "stroke-width", "stroke-dasharray"}
TYPE = {"font-family", "font-size", "font-weight", "textLength", "lengthAdjust"}
ATTRIBUTES = PLACE | LOOK | TYPE | {"role"}


def read_picture(svg: str) -> ElementTree.Element:
    """Returns the picture's root after checking all that holds of every picture."""
    root = ElementTree.fromstring(svg)
    assert svg.startswith('<svg xmlns="http://www.w3.org/2000/svg" ')
    assert root.tag == f"{SPACE}svg" and root.get("role") == "img"
    for element in root.iter():
        assert element.tag.removeprefix(SPACE) in NAMES, element.tag
        assert set(element.attrib) <= ATTRIBUTES, element.attrib
        assert not re.search(r"url\(|script|nan|inf", " ".join(element.attrib.values())), element
    assert [child.tag for child in root][:2] == [f"{SPACE}title", f"{SPACE}desc"]
    assert (root[0].text or "").strip() and (root[1].text or "").strip()
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    ground = root[2]
    assert ground.tag == f"{SPACE}rect" and ground.get("fill") == "#ffffff"
    for x, y, element in placed(root, 0, 0):
        if element.tag == f"{SPACE}text":
            right = x + float(element.attrib["x"]) + float(element.get("textLength", 0))
            assert right <= width + 0.1, element.text
            assert 0 < y + float(element.attrib["y"]) <= height, element.text
    return root


def placed(
    element: ElementTree.Element, x: float, y: float
) -> list[tuple[float, float, ElementTree.Element]]:
    """Returns all elements with the offset of the groups that they stand in."""
    moved = re.fullmatch(r"translate\((\S+) (\S+)\)", element.get("transform", ""))
    if moved:
        x, y = x + float(moved[1]), y + float(moved[2])
    found = [(x, y, element)]
    for child in element:
        found += placed(child, x, y)
    return found


def texts(root: ElementTree.Element) -> list[str]:
    """Returns the texts of a picture that are seen, in order."""
    return [element.text or "" for element in root.iter(f"{SPACE}text")]


def titled(root: ElementTree.Element, ending: str) -> list[tuple[str, ElementTree.Element]]:
    """Returns the groups whose title has this in it, with the title."""
    groups = []
    for element in root.iter(f"{SPACE}g"):
        title = element.find(f"{SPACE}title")
        if title is not None and ending in (title.text or ""):
            groups.append((title.text or "", element))
    return groups
