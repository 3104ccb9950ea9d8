# SPDX-License-Identifier: Apache-2.0
"""Training steps of JAX as models: lowered to StableHLO, built by tessera-aot, with the state carried from step to step."""
from __future__ import annotations

import json
import os
import re
import tempfile
import weakref
from typing import Any, Callable, Mapping, Sequence

from ._compile import Targets, build
from ._errors import UsageError
from ._model import Model

_SAFETENSORS = {'bool': 'BOOL', 'bfloat16': 'BF16'}  # others: letter and bits
_PLAIN = re.compile(r'[\[\].\'"]+')


def _name(prefix: str, path: Any) -> str:
    """('params', ['Dense_0']['kernel']) is params.Dense_0.kernel."""
    import jax  # type: ignore[import-not-found,unused-ignore]
    parts = [part for part in _PLAIN.split(jax.tree_util.keystr(path)) if part]
    return '.'.join(([prefix] if prefix else []) + parts)


def _is_key(leaf: Any) -> bool:
    import jax
    return hasattr(leaf, 'dtype') and bool(jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key))


def _named_leaves(prefix: str, tree: Any) -> list[tuple[str, Any]]:
    """Names and arrays. A typed key is its data, which `_restore` wraps again."""
    import jax
    made = []
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        made.append((_name(prefix, path), jax.random.key_data(leaf) if _is_key(leaf) else jax.numpy.asarray(leaf)))
    return made


def _restore(tree: Any, values: Sequence[Any]) -> Any:
    """The tree with these leaves."""
    import jax
    leaves, definition = jax.tree_util.tree_flatten(tree)
    wrapped = [jax.random.wrap_key_data(value, impl=jax.random.key_impl(leaf)) if _is_key(leaf) else value for leaf, value in zip(leaves, values)]
    return jax.tree_util.tree_unflatten(definition, wrapped)


def _leaves(tree: Any) -> list[Any]:
    import jax
    return [jax.random.key_data(leaf) if _is_key(leaf) else leaf for leaf in jax.tree_util.tree_leaves(tree)]


def _write_safetensors(path: str, arrays: Mapping[str, Any]) -> None:
    import numpy
    header: dict[str, Any] = {}
    data, offset = [], 0
    for name, array in arrays.items():
        values = numpy.asarray(array)
        raw = values.tobytes()
        dtype = _SAFETENSORS.get(values.dtype.name, values.dtype.kind.upper() + str(values.dtype.itemsize * 8))
        header[name] = {'dtype': dtype, 'shape': list(values.shape), 'data_offsets': [offset, offset + len(raw)]}
        data.append(raw)
        offset += len(raw)
    text = json.dumps(header).encode()
    text += b' ' * (-len(text) % 8)
    with open(path, 'wb') as file:
        file.write(len(text).to_bytes(8, 'little') + text + b''.join(data))


def _name_ports(text: str, inputs: Sequence[str], outputs: Sequence[str]) -> str:
    """The text with the names of main's inputs and outputs."""
    start = text.index('@main(')
    end = text.index('\n', start)
    head = text[start:end]
    for index, name in enumerate(inputs):
        head = re.sub(rf'(%arg{index}: tensor<[^>]*>)( {{)?',
                      lambda m, name=name: m.group(1) + f' {{tessera.name = {json.dumps(name)}' + (', ' if m.group(2) else '}'), head, count=1)
    given = iter(outputs)
    head = re.sub(r'jax\.result_info = "[^"]*"', lambda _: f'jax.result_info = {json.dumps(next(given))}', head)
    return text[:start] + head + text[end:]


class JaxModel(Model):
    """A training step of JAX: train it as any model; `state()` gives its parameters and optimizer state back to JAX."""

    _trees: tuple[Any, Any]
    _names: tuple[list[str], list[str]]

    def state(self) -> tuple[Any, Any]:
        """Parameters and optimizer state as they are now, in the structures that build_jax was given."""
        import jax
        values = self.state_dict(library='jax')
        params, state = ([jax.numpy.asarray(values[name]) for name in names] for names in self._names)
        return _restore(self._trees[0], params), _restore(self._trees[1], state)

    def set_state(self, params: Any, opt_state: Any) -> None:
        """Sets parameters and optimizer state, in the structures that build_jax was given. A trainer that is opened later begins with the
        values of the bundle again, unless its state_dir has others: open it before."""
        leaves = [*_named_leaves('params', params), *_named_leaves('opt_state', opt_state)]
        self.load_state_dict({name: _host(leaf) for name, leaf in leaves})


def _host(leaf: Any) -> Any:
    import numpy
    return numpy.asarray(leaf)


def build_jax(train_step: Callable[..., tuple[Any, Any, Any]], params: Any, opt_state: Any, batch: Any, output: str | os.PathLike[str] | None = None,
              *, target: Targets = None, options: Sequence[str] = (), **open_options: Any) -> JaxModel:
    """Builds a training step of JAX and opens it.

    train_step(params, opt_state, batch) returns the new params, the new opt_state, and what the step reports: the loss, or a dict of scalars.
    It is traced once; opt_state may also hold keys of random numbers. params, opt_state: trees of arrays, the state before the first step.
    batch: a tree of arrays [rows, …], or jax.ShapeDtypeStruct: the data inputs of the model have the names of its paths, as 'x' for
    {'x': …}, and 'batch.0' for a tuple. output: the bundle; by default a temporary file. target, options: as for tessera.build.
    open_options: as for tessera.open.

    The state has names from the paths of the trees: params.Dense_0.kernel, opt_state.0.mu.Dense_0.kernel. A run with state_dir that was
    killed goes on when the same program is started again: the bundle is the same.
    """
    import jax
    param_leaves, state_leaves = _named_leaves('params', params), _named_leaves('opt_state', opt_state)
    data = [(_name('', path) if re.search('[a-zA-Z]', _name('', path)) else _name('batch', path), leaf)
            for path, leaf in jax.tree_util.tree_flatten_with_path(batch)[0]]
    carried = param_leaves + state_leaves
    names = [name for name, _ in carried + data]
    if len(set(names)) != len(names):
        raise UsageError('two leaves have one name: ' + ', '.join(sorted({name for name in names if names.count(name) > 1})))
    for name in names:
        if re.search('[=;]', name):
            raise UsageError(f"the path of a leaf is '{name}'; names with '=' or ';' cannot be carried")
    reports: list[str] = []

    def flat(*leaves: Any) -> Any:
        count, end = len(param_leaves), len(carried)
        given = _restore(params, leaves[:count]), _restore(opt_state, leaves[count:end]), jax.tree_util.tree_unflatten(
            jax.tree_util.tree_structure(batch), leaves[end:])
        new_params, new_state, report = train_step(*given)
        new = _leaves(new_params) + _leaves(new_state)
        if len(new) != len(carried):
            raise UsageError(f'the step returns {len(new)} arrays of state; it was given {len(carried)}')
        paths = jax.tree_util.tree_flatten_with_path(report)[0]
        reports[:] = [_name('' if path else 'loss', path) for path, _ in paths]
        return [leaf for _, leaf in paths] + new

    shapes = [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for _, leaf in carried + data]
    lowered = jax.jit(flat, **{'keep_unused': True}).lower(*shapes)
    text = _name_ports(lowered.as_text(), names, reports + [name for name, _ in carried])
    carry = ';'.join(f'{name}=in {index}:out {index + len(reports)}' for index, (name, _) in enumerate(carried))
    folder = tempfile.TemporaryDirectory(prefix='tessera-')  # pylint: disable=consider-using-with
    source = os.path.join(folder.name, 'step.stablehlo.mlir')
    with open(source, 'w', encoding='utf-8') as file:
        file.write(text)
    _write_safetensors(os.path.join(folder.name, 'start.safetensors'), dict(carried))
    path = os.fspath(output) if output is not None else os.path.join(folder.name, 'step.tsb')
    build(source, path, target=target, params=os.path.join(folder.name, 'start.safetensors'), options=['--carry', carry, *options])
    seed, trace = open_options.pop('seed', 0), open_options.pop('trace', None)
    model = JaxModel(path, open_options, seed, trace)
    model._trees = params, opt_state
    model._names = [name for name, _ in param_leaves], [name for name, _ in state_leaves]
    weakref.finalize(model, folder.cleanup)
    return model
