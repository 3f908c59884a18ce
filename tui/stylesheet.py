"""Styles that are read once for each theme, and matched once for each place.

Textual reads every style sheet anew whenever a theme is put on and whenever a screen is opened for
the first time. That costs a tenth of a second before the first frame, and again for each view.
It also looks for the rules of a widget, and of each of its component classes, whenever a screen
comes into sight and whenever the focus moves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from textual.cache import LRUCache
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.dom import DOMNode

if TYPE_CHECKING:
    from textual.css.styles import RenderStyles, RulesMap

KEPT_THEMES: Final = 8
"""How many themes keep their rules; their files may change all the time."""
KEPT_SHEETS: Final = 256
"""More than there are style sheets of views, dialogues and Textual's own widgets."""
KEPT_KINDS: Final = 2_048
"""How many kinds of widgets keep what was found, over all themes."""
KEPT_PLACES: Final = 256
"""How many places keep what was found for one kind of widget."""

OF_THE_APP: Final = frozenset(("dark", "light", "inline", "ansi", "nocolor"))
"""Pseudo-classes that all nodes of an application have, or none."""

Kind = tuple[type[DOMNode], str | None, frozenset[str]]
"""What selectors can name of a node: its types, its id, its classes."""
Place = tuple[tuple[Kind, ...], tuple[object, ...]]
"""The kinds of a node and of those above it, each with every pseudo-class that may matter."""


NOTES: Final = ("_has_hover_style", "_has_focus_within", "_has_order_style", "_has_odd_or_even")
"""What Textual notes on a node about its rules."""


class Found(NamedTuple):
    """The rules of one place, and what a node holds that has them."""

    rules: RulesMap
    held: RulesMap
    notes: tuple[bool, ...]
    """`NOTES` of the node."""


class Candidates(NamedTuple):
    """The rules whose selectors end in a kind of node: its ancestors decide which of them hold."""

    pseudo_classes: tuple[str, ...]
    found: LRUCache[Place, Found]


@lru_cache(KEPT_THEMES)
def _rules_read(_variables: frozenset[tuple[str, str]]) -> LRUCache[tuple[Any, ...], list[RuleSet]]:
    """What was read with these values, in any dashboard of the process; nobody changes a rule."""
    return LRUCache(KEPT_SHEETS)


@lru_cache(KEPT_KINDS)
def _candidates(rules: tuple[RuleSet, ...]) -> Candidates:
    """What was found of these rules, in any dashboard of the process."""
    pseudo_classes = set[str]().union(*(rule.pseudo_classes for rule in rules))
    return Candidates(tuple(sorted(pseudo_classes)), LRUCache(KEPT_PLACES))


@lru_cache(KEPT_SHEETS)
def _by_kind(_rules: tuple[RuleSet, ...]) -> LRUCache[Kind, Candidates]:
    """The candidates among all rules of a dashboard."""
    return LRUCache(KEPT_KINDS)


class _Taken(dict[tuple[Any, ...], "RulesMap"]):
    """Takes what Textual finds, and has found nothing before."""

    def get(self, key: tuple[Any, ...], default: Any = None) -> Any:
        """Nothing: Textual looks."""
        return None


class _ComponentStyles(dict[str, "RenderStyles"]):
    """Styles of a node's component classes: each is made when it is first asked for."""

    def __init__(self, node: DOMNode, names: frozenset[str], stylesheet: Stylesheet) -> None:
        super().__init__()
        self._node = node
        self._names = names
        self._stylesheet = stylesheet

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __missing__(self, name: str) -> RenderStyles:
        if name not in self._names:
            raise KeyError(name)
        # As Textual makes all of them: a node that is never shown has the rules.
        component = DOMNode(classes=name)
        component._attach(self._node)
        self._stylesheet.apply(component)
        self[name] = component.styles
        return component.styles

    def clear(self) -> None:
        """Hold none from here on: the node is closed."""
        self._names = frozenset()
        super().clear()


class CachedStylesheet(Stylesheet):
    """A style sheet that reads each source once with the values of a theme.

    It also remembers which rules hold for a node. These depend on the types, ids, classes and
    pseudo-classes of the node and its ancestors, and on nothing else.
    """

    def __init__(self, *, variables: Mapping[str, str]) -> None:
        super().__init__(variables=dict(variables))
        self._given = dict(variables)
        self._parse_cache = _rules_read(frozenset(variables.items()))
        self._sorted: list[RuleSet] | None = None
        self._by_kind: LRUCache[Kind, Candidates] = LRUCache(KEPT_KINDS)

    def set_variables(self, variables: dict[str, str]) -> None:
        """Values of a theme; those that are set already change nothing."""
        if variables != self._given:
            self._given = dict(variables)
            # Textual empties what it holds; that of the last theme is kept for its return.
            self._parse_cache = LRUCache(1)
            super().set_variables(variables)
            self._parse_cache = _rules_read(frozenset(variables.items()))

    def reparse(self) -> None:
        """Read again what another value may have changed.

        Raises:
            StylesheetError: a style sheet cannot be read; the rules stay as they were.
        """
        # What was read with these values is remembered.
        self.parse()

    def apply(
        self,
        node: DOMNode,
        *,
        animate: bool = False,
        cache: dict[tuple[Any, ...], RulesMap] | None = None,
    ) -> None:
        """Give a node the rules that hold for it; they are looked for once in each place."""
        path = node.css_path_nodes
        candidates = self._candidates_of(_kind(node))
        place = _place(path, candidates.pseudo_classes)
        found = candidates.found.get(place)
        if found is None:
            taken = _Taken()
            super().apply(node, animate=animate, cache=taken)
            for rules in () if animate else taken.values():
                notes = tuple(getattr(node, name) for name in NOTES)
                candidates.found[place] = Found(rules, node.styles.base.get_rules(), notes)
            return
        for name, noted in zip(NOTES, found.notes, strict=True):
            setattr(node, name, noted)
        if _equal(node.styles.base._rules, found.held):
            node.notify_style_update()
        else:
            self.replace_rules(node, found.rules, animate=animate)
        self._process_component_classes(node)

    def _process_component_classes(self, node: DOMNode) -> None:
        """Paint a node again where its component classes have other rules than before."""
        names = node._get_component_classes()
        if not names:
            return
        styles = node._component_styles
        if not isinstance(styles, _ComponentStyles):
            node._component_styles = _ComponentStyles(node, names, self)
            node.refresh()
            return
        path = node.css_path_nodes
        changed = False
        for name in list(styles):
            if not self._has_its_rules(styles[name], path, name):
                before = styles.pop(name)
                changed |= styles[name] != before
        if changed:
            node.refresh()

    def _has_its_rules(self, styles: RenderStyles, path: Sequence[DOMNode], component: str) -> bool:
        """Whether a component class of the last node has the rules that hold for it."""
        kind = (DOMNode, None, frozenset((component,)))
        candidates = self._candidates_of(kind)
        found = candidates.found.get(_place(path, candidates.pseudo_classes, below=kind))
        return found is not None and _equal(styles.base._rules, found.held)

    def _candidates_of(self, kind: Kind) -> Candidates:
        if self._sorted is not self.rules:
            self._sorted = self.rules
            self._by_kind = _by_kind(tuple(self.rules))
        found = self._by_kind.get(kind)
        if found is None:
            found = self._by_kind[kind] = _candidates(tuple(self._named(kind)))
        return found

    def _named(self, kind: Kind) -> Iterator[RuleSet]:
        """The rules whose last selector can be this kind of node, in their order."""
        node_type, id, classes = kind
        types = (base.__name__ for base in node_type._css_bases(node_type))
        names = {"*", f"#{id}", *(f".{name}" for name in classes), *types}
        named = {rule for name in self.rules_map.keys() & names for rule in self.rules_map[name]}
        return filter(named.__contains__, self.rules)


def _equal(some: RulesMap, others: RulesMap) -> bool:
    """Whether rules say the same. Each node has a layout of its own, which is known by its name."""
    if some == others:
        return True
    mine, theirs = some.get("layout"), others.get("layout")
    if mine is None or theirs is None or mine.name != theirs.name:
        return False
    return some == {**others, "layout": mine}


def _kind(node: DOMNode) -> Kind:
    return type(node), node._id, frozenset(node._classes)


def _place(
    path: Sequence[DOMNode], pseudo_classes: Sequence[str], *, below: Kind | None = None
) -> Place:
    """Where the last node of a path is, or a component class of that node."""
    kinds = tuple(map(_kind, path))
    if below is not None:
        kinds += (below,)
    return kinds, tuple(
        # A component class has no pseudo-classes.
        (
            *(_has(node, name) for node in _asked(path, name)),
            *([False] if below is not None else []),
        )
        for name in pseudo_classes
    )


def _asked(path: Sequence[DOMNode], pseudo_class: str) -> Sequence[DOMNode]:
    """Nodes that may answer differently about a pseudo-class."""
    return path[:1] if pseudo_class in OF_THE_APP else path


def _has(node: DOMNode, pseudo_class: str) -> bool:
    # Each kind of node has a table of its own, for nodes of this kind.
    has: Callable[[Any], bool] | None = node._PSEUDO_CLASSES.get(pseudo_class)
    return has is not None and bool(has(node))
