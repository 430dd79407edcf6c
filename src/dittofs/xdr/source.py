"""Lines of Python source under construction: indentation, names, and the run of fixed-size words.

What is read or written by one `struct` call is collected here; `decoding` and `encoding` decide when it is flushed.
"""

import linecache
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any


class SourceWriter:
    """One function being written.  Its globals are `names`."""

    def __init__(self, title: str, names: Mapping[str, Any]) -> None:
        self.title = title
        self.names: dict[str, Any] = {"struct_error": struct.error, **names}
        self.run: list[tuple[str, str]] = []
        self._lines: list[str] = []
        self._depth = 0
        self._counter = 0

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """An indented block; an empty one is legal."""
        self.line(head)
        before = len(self._lines)
        self._depth += 1
        yield
        if len(self._lines) == before:
            self.line("pass")
        self._depth -= 1

    def raise_if(self, condition: str, error: str) -> None:
        with self.block(f"if {condition}:"):
            self.line(f"raise {error}")

    def variable(self, hint: str) -> str:
        """A local name that is not used yet."""
        self._counter += 1
        return f"{hint}_{self._counter}"

    def constant(self, hint: str, value: Any) -> str:
        """A global of the function for this object; the same object gets the same name."""
        name = hint
        while self.names.setdefault(name, value) is not value:
            name = self.variable(hint)
        return name

    def word(self, code: str, text: str) -> None:
        """Add to the run: in decoding `text` is assigned to, in encoding it is an expression."""
        self.run.append((code, text))

    def function(self, name: str) -> Callable[..., Any]:
        """Compile what was written, and keep the text for tracebacks."""
        filename = f"<xdr {name} {self.title} {id(self):x}>"
        source = "\n".join(self._lines) + "\n"
        exec(compile(source, filename, "exec"), self.names)
        linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
        made: Callable[..., Any] = self.names.pop(name)
        made.__qualname__ = f"{name} {self.title}"
        return made


def fixed_code(size: int) -> str:
    """The `struct` code of that many bytes and the padding behind them."""
    return f"{size}s{-size & 3}x" if size & 3 else f"{size}s"
