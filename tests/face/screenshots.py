"""The pictures of README and site: `python -m tests.face.screenshots` makes docs/images anew.

The playground is photographed in Chromium, served as users serve it; a plan draws itself, and
Chromium only makes a PNG of its SVG. Needs the extra ``test`` and Debian's ``chromium``.
"""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import Browser, expect

from .browser import browsing, fragment, opened
from .running import serving

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
PLAYGROUND = fragment(
    a="n k+, (q h e) k+ -> n (q h e)",
    i=["tokens, 4096", "3*heads*128, 4096"],
    arg="q=3, e=128",
    split=["h:4"],
    rank=1,
)
"""A fused QKV projection, its weight cut by heads: of each of three blocks a part."""
CONFIG = quote(
    json.dumps(
        {
            "model_type": "llama",
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_attention_heads": 32,
            "num_hidden_layers": 32,
            "num_key_value_heads": 8,
            "torch_dtype": "bfloat16",
            "vocab_size": 128256,
        }
    )
)
"""Llama 3 8B."""


def playground(browser: Browser) -> None:
    """Photographs the playground with a question that has a condition."""
    with serving() as service, opened(browser, f"{service.url}/{PLAYGROUND}") as page:
        page.set_viewport_size({"width": 1280, "height": 900})
        expect(page.locator(".summary")).to_contain_text("conditional")
        bottom = page.locator(".panel", has_text="What each rank holds").bounding_box()
        assert bottom is not None
        height = bottom["y"] + bottom["height"] + 16
        clip = {"x": 0.0, "y": 0.0, "width": 1280.0, "height": height}
        page.screenshot(path=IMAGES / "playground.png", clip=clip, full_page=True)


def models(browser: Browser) -> None:
    """Photographs how Llama 3 8B may be cut, down to the memory of a rank."""
    with (
        serving() as service,
        opened(browser, f"{service.url}/models#c={CONFIG}&dp=8&tp=8") as page,
    ):
        page.set_viewport_size({"width": 1280, "height": 900})
        memory = page.get_by_role("region", name="Memory of a rank")
        expect(memory).to_be_visible(timeout=120_000)
        bottom = memory.bounding_box()
        assert bottom is not None
        clip = {"x": 0.0, "y": 0.0, "width": 1280.0, "height": bottom["y"] + bottom["height"] + 16}
        page.screenshot(path=IMAGES / "models.png", clip=clip, full_page=True)


def plan(browser: Browser) -> None:
    """Photographs how a small Llama is cut over a mesh of data and tensor parallelism."""
    import dimsolve as ds
    from dimsolve.exec.target import load_target

    graph = load_target("dimsolve.examples.llama:tiny").trace()
    made = ds.plan(graph, {"dp": 2, "tp": 2})
    page = browser.new_page(viewport={"width": 1600, "height": 900})
    page.set_content(made._repr_svg_())
    page.locator("svg").first.screenshot(path=IMAGES / "llama-plan.png")
    page.close()


def main() -> None:
    """Makes all pictures."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    with browsing() as browser:
        for picture in (playground, models, plan):
            picture(browser)


if __name__ == "__main__":
    main()
