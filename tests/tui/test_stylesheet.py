"""Rules that are remembered are those that Textual would find, at every node and in every state."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from textual.css.stylesheet import Stylesheet
from textual.dom import DOMNode

from kshunt.tui.stylesheet import CachedStylesheet
from tests.support.tui.app import Shown, dashboard
from tests.support.tui.cluster import incident


class Looked(Stylesheet):
    """Textual's own search, which leaves nodes as they are."""

    other: ClassVar[DOMNode]
    """Takes the rules in place of the node."""

    @classmethod
    def replace_rules(cls, node: DOMNode, rules: Any, animate: bool = False) -> None:
        """Give the rules to the other node."""
        super().replace_rules(cls.other, rules)

    def _process_component_classes(self, node: DOMNode) -> None:
        """Nothing: the test looks at each of them itself."""

    def rules_of(self, node: DOMNode) -> dict[str, Any]:
        """What holds for a node."""
        type(self).other = DOMNode()
        self.apply(node)
        return held(self.other)


def held(node: DOMNode) -> dict[str, Any]:
    """The rules that a node has; each has a layout of its own, which is compared by its name."""
    rules: dict[str, Any] = {**node.styles.base.get_rules()}
    return rules | {"layout": rules["layout"].name if "layout" in rules else None}


def nodes(shown: Shown) -> Iterator[DOMNode]:
    """Every node of the screen in sight, and those of component classes that were asked for."""
    for node in (shown.app, *shown.app.screen.walk_children(with_self=True)):
        yield node
        for name in list(node._component_styles):
            component = node.get_component_styles(name).node
            assert component is not None
            yield component


def assert_as_textual_finds(shown: Shown, *, when: str) -> None:
    looked = Looked(variables=shown.app.get_css_variables())
    looked._rules = shown.app.stylesheet.rules
    looked._require_parse = False
    seen = list(nodes(shown))
    assert len(seen) > 10
    for node in seen:
        assert held(node) == looked.rules_of(node), f"{node} after {when}"


@pytest.mark.parametrize("again", [False, True])
async def test_each_node_has_the_rules_that_textual_finds(tmp_path: Path, again: bool) -> None:
    """The second dashboard finds all of it remembered."""
    async with dashboard(tmp_path / "s", incident()) as shown:
        assert isinstance(shown.app.stylesheet, CachedStylesheet)
        assert_as_textual_finds(shown, when="its start")
        for key in ("1", "3", "4", "5", "6", "7", "2", "slash", "escape", "question_mark"):
            await shown.pilot.press(key)
            assert_as_textual_finds(shown, when=key)
        await shown.pilot.press("escape")
        await shown.closed()
        shown.app.themes.wear("daylight")
        await shown.pilot.pause()
        assert_as_textual_finds(shown, when="another theme")
        await shown.resize(160, 50)
        assert_as_textual_finds(shown, when="another size")


async def test_a_component_class_has_rules_when_it_is_asked_for(tmp_path: Path) -> None:
    async with dashboard(tmp_path / "s", incident()) as shown:
        grid = shown.grid
        names = grid._get_component_classes()
        unasked = names - {*grid._component_styles}
        assert unasked, "nothing is made before it is wanted"
        for name in names:
            assert grid.get_component_styles(name).node is not None
        assert_as_textual_finds(shown, when="all were asked for")
        with pytest.raises(KeyError, match="COMPONENT_CLASSES"):
            grid.get_component_styles("grid--unheard-of")
