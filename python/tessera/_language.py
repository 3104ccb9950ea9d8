# SPDX-License-Identifier: Apache-2.0
"""Programs in Python syntax that are written in a module of Python: @tessera.function captures the module's file.

Nothing of a program runs in Python. The compiler reads the same file, and the files beside it that it imports, so a bundle is the same as that of
`tessera-aot build`.
"""
from __future__ import annotations

import builtins
import functools
import hashlib
import linecache
import os
import re
import subprocess
import tempfile
from typing import TYPE_CHECKING, Any, Callable

from ._errors import UsageError

if TYPE_CHECKING:
    from ._display import Profile


class Symbol:
    """What a call of the library stands for in a module that is not compiled: a parameter, a setting, a transformed function."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text

    def __call__(self, *args: Any, **_: Any) -> Any:
        return args[0] if len(args) == 1 and callable(args[0]) else Symbol(f'{self._text}(…)')

    def __enter__(self) -> Symbol:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __getitem__(self, _: Any) -> Symbol:
        return self

    def __matmul__(self, _: Any) -> Symbol:
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith('__'):
            raise AttributeError(name)
        return Symbol(f'{self._text}.{name}')


class Decorator(Symbol):
    """A decorator that leaves a function as it is; @a @b applies both."""

    def __call__(self, *args: Any, **_: Any) -> Any:
        if len(args) != 1 or not callable(args[0]):
            raise UsageError(f'@{self._text} stands before a function')
        return args[0]


class DType:
    """An element type."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __matmul__(self, _: Any) -> DType:
        return self

    def __repr__(self) -> str:
        return self.name


class TensorType:
    """The type of a tensor: Tensor[64, 10, f32]."""

    def __init__(self, parts: tuple[Any, ...] = ()) -> None:
        self.parts = parts

    def __getitem__(self, parts: Any) -> TensorType:
        return TensorType(parts if isinstance(parts, tuple) else (parts,))

    def __repr__(self) -> str:
        return f'Tensor[{", ".join(map(repr, self.parts))}]' if self.parts else 'Tensor'


Tensor: Any = TensorType()


def call(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call of a library function by Python: a known value as Python has it; otherwise it stands in a module, or is an error."""
    python = getattr(builtins, name, None)
    if python is not None:
        return python(*(value for value in args if value is not None), **kwargs)
    if name in MODULE_LEVEL:
        return Symbol(f'{name}(…)')
    raise UsageError(f'{name}() runs in a compiled program only; call it in a function, and build the program with @tessera.function')


# What code outside of functions may call.
MODULE_LEVEL = frozenset('accum adamw checkpoint constant constraints cosine custom_jvp custom_vjp deterministic device grad linear loss_scale mesh nesterov normal param remat scope sgd uniform value_and_grad'.split())


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class _Source:
    """The file of a module, or the text of a notebook's cell."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self.text: bytes | None = None
        self.digest = ''
        if os.path.exists(path):
            with open(path, 'rb') as file:
                self.digest = _digest(file.read())
        else:
            self.text = ''.join(linecache.getlines(path)).encode()

    def check(self) -> None:
        if self.text is not None:
            if not self.text:
                raise UsageError(f"{os.path.basename(self.path)} has no source: a program is built from a file or a notebook's cell, not from a prompt")
            return
        with open(self.path, 'rb') as file:
            if _digest(file.read()) != self.digest:
                raise UsageError(f'{os.path.basename(self.path)} has changed since it was imported; import it again')

    def run(self, use: Callable[[str], Any]) -> Any:
        """Calls `use` with the path of the program."""
        self.check()
        if self.text is None:
            return use(self.path)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'cell.py')
            with open(path, 'wb') as file:
                file.write(self.text)
            return use(path)


class Function:
    """An entry of a program: build() compiles its module, profile() also runs it."""

    def __init__(self, python: Callable[..., Any], entry: str, data: dict[str, str] | None) -> None:
        functools.update_wrapper(self, python)
        self.entry, self.data = entry, dict(data or {})
        self._python, self._source = python, _Source(python.__code__.co_filename)

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise UsageError(f'{self._python.__name__}() is an entry of a program, which Python does not run; '
                         f'build() compiles it, and tessera.open(…).{self._python.__name__}(…) calls it')

    def build(self, output: str | os.PathLike[str], **options: Any) -> str:
        """Builds the bundle of the module, with the options of tessera.build, and returns its path. A program with errors raises CompilationError."""
        from ._compile import build
        return str(self._source.run(lambda path: build(path, output, **options)))

    def profile(self, *args: Any, calls: int = 10, **inputs: Any) -> Profile:
        """Builds the program for this machine, calls the entry `calls` times, and returns the time of each kernel."""
        from ._model import open_model
        with tempfile.TemporaryDirectory() as folder:
            path = self.build(os.path.join(folder, 'profile.tsb'))
            with open_model(path) as model:
                return model.profile(*args, entry=self._python.__name__, calls=calls, **inputs)

    def _types(self, path: str) -> str:
        """The signature in the program: names, types, dims."""
        from ._compile import find_compiler
        done = subprocess.run([find_compiler(), 'build', path, '--until=graph', '--dump=graph', '--target=cpu:x86-64-v2'], capture_output=True,
                              check=False)
        head = re.search(rf'func\.func @{self._python.__name__}\((.*)\) -> \((.*?)\) attributes', done.stdout.decode())
        if not head:
            return f'{self._python.__name__}(…), which does not compile'
        ports = [[f'{name}: {kind}' for kind, name in re.findall(r'(tensor<[^>]*>) \{tessera\.(?:name|data) = "([^"]*)"', side)] for side in head.groups()]
        return f'{self._python.__name__}({", ".join(ports[0])}) -> {{{", ".join(ports[1])}}}'

    def __repr__(self) -> str:
        return f'<{self.entry} entry {self._source.run(self._types)}>'


def function(*, entry: str, data: dict[str, str] | None = None, rows_independent: bool = False) -> Callable[[Callable[..., Any]], Function]:
    """Makes a function an entry of the program in its module: "train", "eval" or "infer"."""
    del rows_independent
    return lambda python: Function(python, entry, data)
