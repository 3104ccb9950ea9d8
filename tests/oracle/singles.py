# SPDX-License-Identifier: Apache-2.0
"""Every op by itself, of every type, with dims at the edges of vectors and blocks; and many such graphs as one."""
import numpy as np

from generate import KINDS, VARIANTS, Generator
from graph import STORED, Function, Op, Region, write

EDGES = (0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129)


def singles(seed, kinds):
    """Every kind in each of its variants by itself, of every type, with dims at the edges of vectors and blocks; each once."""
    seen, graphs = set(), []
    for kind in kinds:
        for v, variant in enumerate(VARIANTS.get(kind, (None,))):
            for d, dtype in enumerate(STORED):
                for edge in EDGES:
                    random = np.random.default_rng([seed, list(KINDS).index(kind), v, d, edge])
                    g = Generator(random, [kind], dtypes=(dtype,), empty=edge == 0, edge=edge, only=variant)
                    function = g.graph(f's{len(graphs)}', 1)
                    text = write(function).split('\n', 1)[1]
                    if function.ops[-1].operands and dtype in {t.dtype for t in g.types.values()} and text not in seen:
                        seen.add(text)
                        graphs.append((function, g.data))
    return graphs


def prefixed(region, prefix):
    """The same with another name for each value: %v1 of s7 is %s7_v1."""
    def name(value):
        return f'%{prefix}_{value[1:]}'
    ops = [Op(o.name, map(name, o.operands), map(name, o.results), o.types, o.attrs,
              [prefixed(r, prefix) for r in o.regions]) for o in region.ops]
    return Region([(name(n), t) for n, t in region.arguments], ops)


def merged(graphs, name):
    """One graph, with its data, that computes all of them side by side; a result is called after the graph it is of."""
    arguments, data, ops, results = [], [], [], []
    for function, values in graphs:
        one = prefixed(function, function.name)
        arguments += one.arguments
        data += values
        ops += one.ops[:-1]
        results += one.ops[-1].operands
    return Function(name, arguments, [*ops, Op('return', results, [], [])]), data
