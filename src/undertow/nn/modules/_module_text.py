"""How modules print. Uses a stack instead of recursion, so nesting may have any depth."""

from __future__ import annotations

from typing import Any


class ModuleText:
    """The printing part of a module: which submodules are shown, and how their texts are put together."""

    _modules: dict[str, Any]

    def _shown_modules(self) -> list[Any]:
        return list(self._modules.values())

    def _text_around(self, texts: list[str]) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): {indent(text)}" for name, text in zip(self._modules, texts)]
        if len(lines) == 1 and not children:
            return f"{self._get_name()}({lines[0]})"
        if not lines and not children:
            return f"{self._get_name()}()"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines + children) + "\n)"

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """Return what to print between the parentheses."""
        return ""

    def __repr__(self) -> str:
        texts: list[str] = []
        waiting = [(self, self._shown_modules(), texts)]
        inside = {id(self)}
        while True:
            module, children, done = waiting[-1]
            if len(done) == len(children):
                waiting.pop()
                inside.remove(id(module))
                text = module._text_around(done)
                if not waiting:
                    return text
                waiting[-1][2].append(text)
                continue
            child = children[len(done)]
            if id(child) in inside:
                raise RecursionError(f"maximum recursion depth exceeded: a {type(child).__name__} is inside of itself")
            if isinstance(child, ModuleText) and type(child).__repr__ is ModuleText.__repr__:
                waiting.append((child, child._shown_modules(), []))
                inside.add(id(child))
            else:
                done.append(repr(child))


def indent(text: str) -> str:
    return text.replace("\n", "\n  ")
