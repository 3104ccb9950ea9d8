# SPDX-License-Identifier: Apache-2.0
"""What people look at: tables of a model, of a profile, a progress bar."""
from __future__ import annotations

import csv
import ctypes
import json
import os
import pathlib
import sys
import tempfile
import time
from ctypes import byref, c_void_p
from typing import TYPE_CHECKING, Any, Mapping, Sequence

from . import _abi, _arrays
from ._errors import UsageError, check

if TYPE_CHECKING:
    from ._model import Model
    from ._training import StepReport

_LIB = _abi.LIB
Table = Sequence[Sequence[str]]


def _bytes(count: int) -> str:
    size, unit = float(count), 'B'
    for unit in ('B', 'KiB', 'MiB', 'GiB', 'TiB'):
        if size < 1024 or unit == 'TiB':
            break
        size /= 1024
    return f'{count} B' if unit == 'B' else f'{size:.1f} {unit}'


def text_table(head: Sequence[str], rows: Table) -> str:
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    return '\n'.join('  '.join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in [head, *rows])


def html_table(head: Sequence[str], rows: Table) -> str:
    import html

    def line(tag: str, cells: Sequence[str]) -> str:
        return '<tr>' + ''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells) + '</tr>'
    return f'<table><thead>{line("th", head)}</thead><tbody>{"".join(line("td", row) for row in rows)}</tbody></table>'


class Inspection:
    """What a model is: `summary`, `entries` and `tensors` as tables; str() and notebooks show them."""

    def __init__(self, model: Model) -> None:
        with model._lock:
            if model._handle is None:
                raise UsageError(f"the model '{model.name}' is closed")
            plan = _LIB.tsr_model_get_memory_plan(model._handle)
            choice = _LIB.tsr_model_get_choice(model._handle)
            digest = bytes(_LIB.tsr_model_get_digest(model._handle).bytes).hex()
            threads = _LIB.tsr_model_get_thread_count(model._handle)
        parameters = [tensor for tensor in model.tensors.values() if tensor.role == 'param']
        count = 0
        for tensor in parameters:
            size = 1
            for dim in tensor.shape:
                size *= dim
            count += size
        self.summary: dict[str, str] = {
            'model': model.name, 'bundle': digest, 'target': model.target, 'why': choice.decode() if choice else '', 'numerics': model.numerics,
            'threads': str(threads), 'parameters': f'{count} in {len(parameters)} tensors', 'memory': _bytes(plan.total_bytes),
            'workspace': _bytes(plan.workspace_bytes), 'virtual ranks': str(model.virtual_ranks)}
        self.hyperparameters = model.hyperparameters
        self.entries = [entry.config for entry in model.entries.values()]
        self.tensors = list(model.tensors.values())

    def _parts(self) -> list[tuple[Sequence[str], Table]]:
        return [(('what', 'value'), [*self.summary.items(), *((name, f'{value:g}') for name, value in self.hyperparameters.items())]),
                (('entry', 'kind', 'inputs', 'outputs'),
                 [(one.name, one.kind, ', '.join(map(str, one.inputs)), ', '.join(map(str, one.outputs))) for one in self.entries]),
                (('tensor', 'role', 'type'), [(one.name, one.role, _arrays.type_text(one.dtype, one.shape)) for one in self.tensors])]

    def __repr__(self) -> str:
        return '\n\n'.join(text_table(head, rows) for head, rows in self._parts())

    def _repr_html_(self) -> str:
        return ''.join(html_table(head, rows) for head, rows in self._parts())


class Profile:
    """Times of kernels: `kernels` has a dict for each, with the columns of the roofline (docs/traces.md); `events` are those of the trace."""

    def __init__(self, kernels: list[dict[str, str]], trace: str) -> None:
        self.kernels, self.trace = kernels, trace

    @property
    def events(self) -> list[dict[str, Any]]:
        loaded = json.loads(self.trace)
        events: list[dict[str, Any]] = loaded['traceEvents'] if isinstance(loaded, dict) else loaded
        return events

    def save_trace(self, path: str | os.PathLike[str]) -> None:
        """Writes the trace for a trace viewer (Perfetto, chrome://tracing)."""
        pathlib.Path(path).write_text(self.trace, 'utf-8')

    def _table(self) -> tuple[Sequence[str], Table]:
        head = list(self.kernels[0]) if self.kernels else ['kernel']
        return head, [[row[name] for name in head] for row in self.kernels]

    def __repr__(self) -> str:
        return text_table(*self._table())

    def _repr_html_(self) -> str:
        return html_table(*self._table())


def profile(model: Model, entry: str | None, calls: int, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Profile:
    """See Model.profile."""
    from ._model import Model as Opened
    from ._model import encode, new_context
    values = model.state_dict(library='tessera')
    ctx, trace = new_context(), c_void_p()
    options = _abi.TraceOptions()
    options.size_bytes, options.first_step, options.last_step = ctypes.sizeof(options), 1, 1 << 40
    check(ctx, _LIB.tsr_trace_create(byref(ctx), byref(options), byref(trace)))
    copy: Any = None
    try:
        copy = Opened(model.path, model._options, model._seed, trace.value)
        copy.load_state_dict(values)
        if entry is not None and entry not in copy.entries:
            raise UsageError(f"no entry '{entry}'; the bundle has {', '.join(copy.entries)}")
        call: Any = copy if entry is None else copy.entries[entry]
        for _ in range(calls):
            call(*args, **kwargs)
        with tempfile.TemporaryDirectory() as folder:
            roofline, events = f'{folder}/roofline.csv', f'{folder}/trace.json'
            check(copy._ctx, _LIB.tsr_model_write_roofline(byref(copy._ctx), copy._handle, encode(roofline)))
            copy._ctx.trace = None
            check(ctx, _LIB.tsr_trace_write(byref(ctx), trace, encode(events)))
            with open(roofline, encoding='utf-8', newline='') as file:
                kernels = list(csv.DictReader(file))
            return Profile(kernels, pathlib.Path(events).read_text('utf-8'))
    finally:
        if copy is not None:
            copy.close()
        _LIB.tsr_trace_destroy(trace)


def wants_bar() -> bool:
    """Whether the standard error output is a terminal, or a notebook shows it."""
    if sys.stderr is not None and sys.stderr.isatty():
        return True
    shell: Any = sys.modules.get('IPython')
    return shell is not None and 'IPKernelApp' in getattr(shell.get_ipython(), 'config', {})


class Bar:
    """A line of progress that is written over itself, at most ten times a second."""

    def __init__(self, steps: int) -> None:
        self._steps, self._shown, self._first, self._width = steps, -1.0, -1, 0
        self._last: StepReport | None = None

    def show(self, report: StepReport) -> None:
        if self._first < 0:
            self._first = report.step - 1
        self._last = report
        now = time.monotonic()
        if now - self._shown >= 0.1:
            self._shown = now
            self._write(report)

    def _write(self, report: StepReport) -> None:
        done = report.step / self._steps if self._steps else 1.0
        rate = (report.step - self._first) / report.seconds if report.seconds > 0 else 0.0
        left = (self._steps - report.step) / rate if rate else 0.0
        numbers = ' '.join(f'{name} {value:.4f}' for name, value in report.outputs.items() if isinstance(value, float))
        line = f'{"#" * int(20 * done):<20} {report.step}/{self._steps} {numbers} {rate:.0f} steps/s, {left:.0f} s left'
        sys.stderr.write('\r' + line.ljust(self._width))
        sys.stderr.flush()
        self._width = len(line)

    def close(self) -> None:
        if self._last is not None:
            self._write(self._last)
            sys.stderr.write('\n')
