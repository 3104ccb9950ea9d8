# SPDX-License-Identifier: Apache-2.0
"""Building bundles with tessera-aot, where the compiler is installed."""
from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from typing import Any, Iterable, Mapping, NamedTuple, Sequence, Union

from ._errors import CLASSES, CompilationError, InternalError, UsageError
from ._model import logger

Targets = Union[str, Iterable[str], None]


class Diagnostic(NamedTuple):
    """A message of the compiler about a place in the source. `fix`: column, number of bytes, and the text that was probably meant."""

    number: str  # 'TSR-0009'; '' for a note
    severity: str  # 'error', 'warning', 'remark', 'note'
    file: str
    line: int  # from 1; 0 unknown
    column: int  # in bytes, from 1; 0 unknown
    text: str
    fix: tuple[int, int, str] | None
    notes: tuple[Diagnostic, ...]
    source: str  # the line of the source; '' if it is not known

    def __str__(self) -> str:
        """The message with the line of the source, a caret below it, and the fix below that."""
        where = ''.join(f'{part}:' for part in (self.file, self.line, self.column) if part)
        where += ' ' * bool(where)
        lines = [f'{where}{self.severity}: ' + (f'[{self.number}] ' if self.number else '') + self.text]
        if self.source and self.column:
            before = self.source.encode()[:self.column - 1].decode('utf-8', 'replace')
            lines += [self.source, ''.join('\t' if c == '\t' else ' ' for c in before) + '^']
            if self.fix:
                to = self.source.encode()[:self.fix[0] - 1].decode('utf-8', 'replace')
                lines.append(''.join('\t' if c == '\t' else ' ' for c in to) + self.fix[2])
        return '\n'.join([*lines, *map(str, self.notes)])


def find_compiler() -> str:
    """tessera-aot: that of TESSERA_AOT, or of the PATH."""
    found = os.environ.get('TESSERA_AOT') or shutil.which('tessera-aot')
    if not found:
        raise UsageError('no tessera-aot in the PATH: building bundles needs the compiler, which is not part of this package; TESSERA_AOT names its path')
    return found


def _read(row: Mapping[str, Any], lines: Mapping[str, Sequence[str]]) -> Diagnostic:
    fix, text = row.get('fix'), lines.get(row['file'], ())
    return Diagnostic(row.get('number', ''), row['severity'], row['file'], row['line'], row['column'], row['text'],
                      (fix['column'], fix['length'], fix['text']) if fix else None,
                      tuple(_read(note, lines) for note in row.get('notes', ())), text[row['line'] - 1] if 0 < row['line'] <= len(text) else '')


def _source_lines(path: str) -> dict[str, Sequence[str]]:
    """The lines of a text, by the name that diagnostics have for it."""
    try:
        with open(path, encoding='utf-8') as file:
            return {os.path.basename(path): file.read().split('\n')}
    except (OSError, UnicodeDecodeError):
        return {}


def _arguments(target: Targets, params: Any, dims: Mapping[str, Any], train: str | None, optimizer: str | None, options: Sequence[str]) -> list[str]:
    made = ['--diagnostics=json']
    if target is not None:
        made.append('--target=' + (target if isinstance(target, str) else ','.join(target)))
    if params is not None:
        made += ['--params', os.fspath(params)]
    for name, size in dims.items():
        made.append(f'--dim={name}=' + (f'{size.start}..{size.stop - 1}' if isinstance(size, range) else str(size) if isinstance(size, int)
                                        else ','.join(map(str, size))))
    for flag, value in (('--train', train), ('--optimizer', optimizer)):
        if value is not None:
            made += [flag, value]
    return [*made, *options]


def build(source: str | os.PathLike[str], output: str | os.PathLike[str], *, target: Targets = None, params: str | os.PathLike[str] | None = None,
          dims: Mapping[str, int | range | Sequence[int]] | None = None, train: str | None = None, optimizer: str | None = None,
          options: Sequence[str] = ()) -> str:
    """Builds a bundle with tessera-aot and returns its path, for tessera.open.

    source: the path of an .mlir or .onnx file, or the text of an MLIR module. target: 'cpu:x86-64-v3', or several. params: weights to store.
    dims: sizes of open dims: {'N': 8}, {'N': (1, 8, 64)} for a copy each, {'N': range(1, 65)} for any from 1 to 64. train, optimizer: loss and
    optimizer for an ONNX model. options: further flags of `tessera-aot build`.

    A program with errors raises CompilationError: its text shows the first error with its line, a caret and the fix; `diagnostics` has all of
    them. Warnings and remarks go to the logger 'tessera'.
    """
    text = source if isinstance(source, str) and '\n' in source else None
    if text is None:
        return _build(os.fspath(source), os.fspath(output), _arguments(target, params, dims or {}, train, optimizer, options))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'source.mlir')
        with open(path, 'w', encoding='utf-8') as file:
            file.write(text)
        return _build(path, os.fspath(output), _arguments(target, params, dims or {}, train, optimizer, options))


def _build(source: str, output: str, arguments: Sequence[str]) -> str:
    done = subprocess.run([find_compiler(), 'build', source, '-o', output, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False)
    rows, rest, lines = [], [], _source_lines(source)
    for line in done.stderr.decode('utf-8', 'replace').splitlines():
        try:
            rows.append(_read(json.loads(line), lines))
        except (ValueError, KeyError, TypeError):
            rest.append(line)
    for row in rows:
        if row.severity != 'error':
            logger().log(30 if row.severity == 'warning' else 20, '%s', row)
    if done.returncode == 0:
        return output
    errors = [row for row in rows if row.severity == 'error']
    if errors:
        raise CompilationError(str(errors[0]) + (f'\nand {len(errors) - 1} more' if len(errors) > 1 else ''), diagnostics=tuple(rows))
    raise CLASSES.get(done.returncode, InternalError)('\n'.join(rest).strip() or f'tessera-aot ended with code {done.returncode}')
