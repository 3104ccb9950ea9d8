#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""docs/language.md: every op of dialect `tessera`, from its declaration (compiler/graph/*.td), its row in ops.def and the compiler.

language.py OPT ROOT RECORDS             compares the page; every op has an example that the compiler accepts
language.py OPT ROOT RECORDS --update    writes the page

RECORDS are the declarations as JSON (llvm-tblgen -dump-json). An example is the field `example` of the declaration, or else the op's
first use in EXAMPLES, or else the op on tensors of one type, with the simplest attributes that the compiler accepts. The element types of operands and results are those with which the compiler accepts the example.
"""
import itertools
import json
import pathlib
import re
import subprocess
import sys

OPT, ROOT, RECORDS = sys.argv[1], pathlib.Path(sys.argv[2]).resolve(), json.loads(pathlib.Path(sys.argv[3]).read_text('utf-8'))
PAGE = ROOT / 'docs/language.md'
EXAMPLES = ['graph/ops.mlir', 'graph/ops-tensor.mlir']
DTYPES = ['f64', 'f32', 'bf16', 'f16', 'i64', 'i32', 'i16', 'i8', 'ui64', 'ui32', 'ui16', 'ui8', 'i1', 'f8E4M3FN', 'f8E5M2', 'f8E8M0FNU']
FAMILIES = {'graph.td': 'Parameters, state, training', 'elementwise.td': 'Constants, elementwise ops, casts',
            'quantize.td': 'Number formats, quantisation', 'shape.td': 'Products, reductions, changes of shape', 'move.td': 'Moving elements, sorting',
            'rows.td': 'Softmax, norms, attention', 'image.td': 'Convolution, pooling', 'experts.td': 'Mixtures of experts',
            'control.td': 'Random numbers, control, derivatives',
            'dotted.td': 'Recomputation, resilience, scaling'}
KINDS = {'unit attribute': 'flag', '64-bit signless integer attribute': 'integer', '64-bit integer array attribute': 'integers',
         '64-bit float attribute': 'number', 'bool attribute': 'bool', 'constant vector/tensor attribute': 'constant', 'string attribute': 'string', 'any attribute': 'any',
         'array attribute': 'array', 'array of integers and expressions': 'integers'}
SIMPLE = {'64-bit signless integer attribute': ('0', '1'), '64-bit float attribute': ('0.5', '1.0'), 'bool attribute': ('true',),
          '64-bit integer array attribute': ('[1]', '[1, 0]', '[0, 0]')}
TENSOR = r'tensor<[^<>]*>'


def run(text, *options):
    """The output of tessera-opt, part by part; None for a part that it refuses."""
    parts = []
    done = subprocess.run([OPT, '--split-input-file', *options, '-'], input=text, capture_output=True, text=True, check=False)
    if not done.returncode:
        return done.stdout.split('// -----\n')
    for part in text.split('// -----\n'):
        one = subprocess.run([OPT, *options, '-'], input=part, capture_output=True, text=True, check=False)
        parts.append(one.stdout if not one.returncode else None)
    return parts


def accepted(parts):
    """Which of the modules the compiler accepts."""
    done = subprocess.run([OPT, '--split-input-file', '--no-output', '--diagnostics=json', '-'], input='// -----\n'.join(parts),
                          capture_output=True, text=True, check=False)
    wrong = {json.loads(line)['line'] for line in done.stderr.splitlines() if line.startswith('{')}
    first, good = 1, []
    for part in parts:
        last = first + part.count('\n')
        good.append(not any(first <= line < last for line in wrong))
        first = last + 1
    return good


def fold(text, width=150):
    """One paragraph for each paragraph of a description, in lines."""
    out = []
    for paragraph in re.split(r'\n\s*\n|\n(?=\s*")', text.strip('\n')):
        line = ''
        for word in paragraph.split():
            if line and len(line) + 1 + len(word) > width:
                out.append(line)
                line = ''
            line += (' ' if line else '') + word
        out += [line, '']
    return '\n'.join(out).strip('\n')


# ---- the declarations ----

def read_ops():
    gradients = dict(re.findall(r'^X\(\w+, "([\w.]+)", \w+, \w+, \w+, (\w+),', (ROOT / 'compiler/graph/ops.def').read_text('utf-8'), re.M))
    ops = []
    for name, record in RECORDS.items():
        if not isinstance(record, dict) or 'Op' not in record.get('!superclasses', []) or record['opDialect']['def'] != 'Tessera_Dialect':
            continue
        ops.append({'name': record['opName'], 'record': record, 'gradient': gradients.get(record['opName']), 'file': record['!locs'][0]})
        file, line = ops[-1]['file'].split(':')
        ops[-1]['position'] = list(FAMILIES).index(file), int(line)
    return sorted(ops, key=lambda op: op['position'])


def names_of(record, field, kinds=('TypeConstraint',)):
    """(name, kind) of operands, attributes or results."""
    return [(name, RECORDS[value['def']]) for value, name in record[field]['args'] if set(kinds) & set(RECORDS[value['def']]['!superclasses'])]


def is_several(record):
    return bool({'Variadic', 'Optional'} & set(record['!superclasses']))


def attribute_rows(record):
    for name, attribute in names_of(record, 'arguments', ('Attr', 'AttrConstraint')):
        base = RECORDS[attribute['baseAttr']['def']] if attribute.get('baseAttr') else attribute
        default = attribute.get('defaultValue')
        kind = KINDS.get(base.get('summary'), base.get('summary') or 'any')
        if base.get('mnemonic'):
            kind = f'`#tessera.{base["mnemonic"]}`'
        kind = re.sub(r'#tessera\.\w+', lambda m: f'`{m.group(0)}`', kind) if '`' not in kind else kind
        text = 'required' if not attribute.get('isOptional') and default is None else 'none'
        if default is not None:
            text = f'`{default}`'
        if kind == 'flag':
            text = 'off'
        yield f'| `{name}` | {kind} | {text} |'


# ---- examples ----

def split_line(text):
    """(results, name, operands, the rest, types) of the text of an op in one line; None if it has another form."""
    match = re.match(r'(?:((?:%[\w:]+(?:, )?)+) = )?(tessera\.[\w.]+)((?: \w+)?) ?((?:%[\w#]+(?:, )?)*)(.*) : (\(?' + TENSOR + r'.*)$', text)
    if not match:
        return None
    results, name, keyword, operands, attributes, types = match.groups()
    left = types.split(' -> ')[0]
    tensors, operands = re.findall(TENSOR, left), re.findall(r'%[\w#]+', operands)
    if len(tensors) == 1:
        tensors *= len(operands)
    return (results, name, keyword, operands, attributes, types, tensors) if len(tensors) == len(operands) else None


def operand_names(record, count):
    """Names for the operands of an example: those of the declaration."""
    names = []
    for name, kind in names_of(record, 'arguments'):
        rest = count - len(names)
        if 'Variadic' in kind['!superclasses']:
            names += [chr(ord('a') + i) for i in range(rest)]
        elif rest:
            names.append(name)
    return names


def line_example(record, text):
    parts = split_line(text)
    if not parts:
        return None
    results, name, keyword, operands, attributes, types, tensors = parts
    names = operand_names(record, len(operands))
    if len(names) != len(operands):
        return None
    left = ''
    if results:
        declared = names_of(record, 'results')
        left = ', '.join('%' + r for r, _ in declared) if not any(is_several(k) for _, k in declared) else re.sub(r'%\w+', '%results', results)
        left += ' = '
    arguments = ', '.join(f'%{n}: {t}' for n, t in zip(names, tensors))
    uses = ' ' + ', '.join(f'%{n}' for n in names) if names else ''
    attributes = ' ' + attributes.strip() if attributes.strip() else ''
    return f'func.func @example({arguments}) {{\n  {left}{name}{keyword}{uses}{attributes} : {types}\n  return\n}}\n'


def block_example(lines, at):
    """An op with regions, whose operands become arguments."""
    indent = re.match(r' *', lines[at]).group(0)
    end = at
    while end < len(lines) and not (lines[end].startswith(indent + '}') and re.search(r'\} ?(?:\{[^{}]*\} )?: |\}$', lines[end]) and
                                    not lines[end].rstrip().endswith('{')):
        end += 1
    block = lines[at:end + 1]
    if end == len(lines):
        return None
    head = re.match(r' *(?:%[\w:]+ = )?tessera\.[\w.]+ ?((?:%[\w#]+(?:, )?)*)', block[0])
    operands = list(dict.fromkeys(re.findall(r'%[\w#]+', head.group(1))))
    all_operands = re.findall(r'%[\w#]+', head.group(1))
    types = re.findall(TENSOR, block[-1].split(' : ')[-1].split(' -> ')[0])
    if len(types) == 1:
        types *= len(all_operands)
    if len(types) != len(all_operands) and all_operands:
        return None
    text = '\n'.join(line[len(indent):] for line in block)
    arguments = []
    for i, operand in enumerate(operands):
        text = re.sub(re.escape(operand) + r'(?![\w#])', f'%x{i}', text)
        arguments.append(f'%x{i}: {types[all_operands.index(operand)]}')
    body = '\n'.join('  ' + line for line in text.split('\n'))
    return f'func.func @example({", ".join(arguments)}) {{\n{body}\n  return\n}}\n'


def simple_examples(record):
    """The op on tensors of one type, with values for the attributes that it requires."""
    needed = [(name, kind) for name, kind in names_of(record, 'arguments', ('Attr',)) if not kind.get('isOptional') and kind.get('defaultValue') is None]
    operands = [name for name, kind in names_of(record, 'arguments') if not is_several(kind)]
    for values in itertools.product(*(SIMPLE.get(kind['summary'], ()) for _, kind in needed)):
        attributes = ', '.join(f'{name} = {value}' for (name, _), value in zip(needed, values))
        yield (f'func.func @example({", ".join(f"%{name}: tensor<4x3xf32>" for name in operands)}) {{\n'
               f'  {", ".join("%" + name for name, _ in names_of(record, "results"))} = tessera.{record["opName"]} '
               f'{", ".join("%" + name for name in operands)}{" {" + attributes + "}" if attributes else ""} : tensor<4x3xf32>\n  return\n}}\n')


def candidates(op, corpus):
    name = 'tessera.' + op['name']
    given = op['record'].get('example')
    if given:
        yield given.strip() + '\n'
        return
    for lines in corpus:
        for at, line in enumerate(lines):
            if not re.match(rf' *(?:(?:%[\w:]+(?:, )?)+ = )?{re.escape(name)}(?=[ \n]|$)', line):
                continue
            made = block_example(lines, at) if line.rstrip().endswith('{') else line_example(op['record'], line.strip())
            if made:
                yield made
    if 'Tessera_FormOp' in op['record']['!superclasses']:
        yield from simple_examples(op['record'])


def find_examples(ops):
    corpus = []
    for file in EXAMPLES:
        corpus += [part.split('\n') for part in run((ROOT / 'tests/compiler' / file).read_text('utf-8')) if part]
    offers = {op['name']: list(dict.fromkeys(candidates(op, corpus)))[:12] for op in ops}
    every = [(name, text) for name, texts in offers.items() for text in texts]
    found = {}
    for (name, text), good in zip(every, accepted([text for _, text in every])):
        if good:
            found.setdefault(name, text)
    for op in ops:  # a terminator is in the example of its op
        if op['name'] not in found and 'yield' in op['name']:
            found[op['name']] = next((text for text in found.values() if f'tessera.{op["name"]} ' in text), None)
    found = {name: text for name, text in found.items() if text}
    printed = run('// -----\n'.join(found.values()), '--mlir-print-op-generic')
    for op in ops:
        op['example'], op['generic'] = found.get(op['name']), None
    generics = dict(zip(found, printed))
    for op in ops:
        generic = generics.get(op['name']) or ''
        op['generic'] = next((l.strip() for l in generic.split('\n') if f'"tessera.{op["name"]}"' in l), None)


# ---- element types ----

def dtype_of(tensor):
    return re.sub(r'.*x', '', tensor[7:-1].split(',')[0])


def replacements(types):
    """(replaced dtypes, dtype in their place, new dtypes) of the example's element types: one replaced by every other one. A single operand
    and a single result of two types may depend on each other: both are replaced, too."""
    for dtype in dict.fromkeys(types):
        for other in DTYPES:
            yield dtype, other, {dtype: other}
            if len(types) == 2 and types[0] != types[1]:
                yield from ((dtype, other, {**dict.fromkeys(types, free), dtype: other}) for free in DTYPES)


def variants(op):
    """(names, dtype, module) for each element type of the example, replaced by every other one."""
    match = re.match(r'(?:%[\w:]+ = )?"[\w.]+"\(([^)]*)\)(.*) : \(([^)]*)\) -> (.*)$', op['generic'] or '')
    if not match or 'Tessera_FormOp' not in op['record']['!superclasses'] or re.search(r'\(\{', op['generic']):
        return
    operands, results = re.findall(TENSOR, match.group(3)), re.findall(TENSOR, match.group(4))
    names = operand_names(op['record'], len(operands))
    declared = [n for n, _ in names_of(op['record'], 'results')]
    names += declared if len(declared) == len(results) else [f'{declared[0]} {i + 1}' if len(results) > 1 else declared[0] for i in range(len(results))]
    types = operands + results
    for dtype, other, made in replacements([dtype_of(t) for t in types]):
        who = [n for n, t in zip(names, types) if dtype_of(t) == dtype]
        new = [re.sub(rf'(?<![a-z0-9]){dtype_of(t)}>$|(?<=x){dtype_of(t)}>$', made.get(dtype_of(t), dtype_of(t)) + '>', t) for t in types]
        arguments = ', '.join(f'%{i}: {t}' for i, t in enumerate(new[:len(operands)]))
        uses = ', '.join(f'%{i}' for i in range(len(operands)))
        left = f'%r:{len(results)} = ' if results else ''
        text = (f'func.func @f({arguments}) {{\n  {left}"tessera.{op["name"]}"({uses}){match.group(2)} : ({", ".join(new[:len(operands)])})'
                f' -> ({", ".join(new[len(operands):])})\n  return\n}}\n')
        yield tuple(who), other, text


def find_dtypes(ops):
    every = [(op, *variant) for op in ops for variant in variants(op)]
    for (op, who, dtype, _), good in zip(every, accepted([text for _, _, _, text in every])):
        op.setdefault('dtypes', {}).setdefault(who, [])
        if good and dtype not in op['dtypes'][who]:
            op['dtypes'][who].append(dtype)


# ---- the page ----

GRADIENTS = {'none': 'No gradient passes through it.', 'unsupported': 'Its gradient is that of the ops in its regions.',
             'lowered': 'Its gradient is that of the simpler ops that it is lowered to.'}


def section(op):
    record = op['record']
    out = [f'### `tessera.{op["name"]}`', '', fold(record['summary'][0].upper() + record['summary'][1:] + '.'), '']
    if record.get('form'):
        out += ['```', record['form'], '```', '']
    out += [fold(record['description']), '']
    rows = list(attribute_rows(record))
    if rows:
        out += ['| attribute | kind | default |', '|---|---|---|', *rows, '']
    if op.get('dtypes'):
        out += ['| of | element types |', '|---|---|']
        out += [f'| {", ".join(f"`%{n}`" for n in who)} | {", ".join(dtypes)} |' for who, dtypes in op['dtypes'].items()] + ['']
    if op['gradient']:
        out += [GRADIENTS.get(op['gradient'], 'It has a gradient.'), '']
    if op['example']:
        out += ['```mlir', op['example'].rstrip('\n'), '```', '']
    return out


def attribute_sections():
    for record in RECORDS.values():
        if not isinstance(record, dict) or 'Tessera_Attr' not in record.get('!superclasses', []) or record.get('!anonymous'):
            continue
        yield f'### `#tessera.{record["mnemonic"]}`'
        yield from ('', fold(record['summary'][0].upper() + record['summary'][1:] + '.'), '')
        rows = [(name, RECORDS[value['def']]) for value, name in record['parameters']['args'] if isinstance(value, dict)]
        rows = [(name, r) for name, r in rows if 'Tessera_F64' in r['!superclasses']]
        if rows:
            yield from ('| field | meaning | default |', '|---|---|---|')
            yield from (f'| `{name}` | {r["summary"]} | {"`" + r["text"] + "`" if r.get("text") else "required"} |' for name, r in rows)
            yield ''


def make_page(ops):
    own = [op for op in ops if op['record'].get('reason')]
    out = ['# Language', '', fold('''
Every op of dialect `tessera`: how it is written, its attributes and their defaults, its element types, its gradient, and an example.
`tests/compiler/language.py OPT ROOT RECORDS --update` makes this page of the declarations in `compiler/graph/*.td`, of `compiler/graph/ops.def`, and of
the answers of the compiler; the test `compiler/language` compares it and checks every example. [The README of Graph IR](../compiler/graph/README.md) says what
a program is, how entries, data and parameters are declared, and which element types ops refuse and why. [docs/diagnostics.md](diagnostics.md) lists all errors.
'''), '', '## How ops are written', '', '```', '%result = tessera.op %a, %b {attributes} : (types) -> type', '```', '', fold('''
The types are those of the operands, then those of the results. Operands that all have one type need it once, without parentheses:
`tessera.add %a, %b : tensor<4xf32>`. One result needs no parentheses. In the forms below, brackets enclose parts that may be left out; `[-> type]` says that
the result type follows from the operands, and where there is no `->`, each result has the type of the first operand. `%inputs...` are any number of operands.
Attributes are written `name = value`, flags by their name alone: `{axis = 1, reverse = true, causal}`.

Older texts are read, too: lists of types without parentheses (`: tensor<4x2xf32>, tensor<2xf32> -> tensor<4x2xf32>`), `to` instead of `->` in
`tessera.cast`, and `tessera.adamw` and `tessera.sgd` with one type for all tensors of the parameter's type.

These ops are written in another way:
'''), '', '| op | reason |', '|---|---|', *(f'| `tessera.{op["name"]}` | {op["record"]["reason"]} |' for op in own),
           '| `tessera.compare` | its predicate is part of its name, as in `arith.cmpf lt` |', '']
    for file, title in FAMILIES.items():
        out += [f'## {title}', '']
        for op in ops:
            if op['file'].startswith(file + ':'):
                out += section(op)
    out += ['## Attributes', '', *attribute_sections()]
    return '\n'.join(out).rstrip('\n') + '\n'


def main():
    ops, wrong = read_ops(), []
    find_examples(ops)
    find_dtypes(ops)
    for op in ops:
        name, record = op['name'], op['record']
        if not op['example']:
            wrong.append(f'tessera.{name} has no example that the compiler accepts: give its declaration a field `example`, or use it in {EXAMPLES}')
        if not record.get('form'):
            wrong.append(f'tessera.{name} does not say how it is written: give its declaration a field `form`')
        if 'Tessera_Op' in record['!superclasses'] and not record.get('reason') and 'Tessera_FormOp' not in record['!superclasses']:
            wrong.append(f'tessera.{name} is not written like other ops, and its declaration has no `reason`')
        for who, dtypes in op.get('dtypes', {}).items():
            if not dtypes:
                wrong.append(f'tessera.{name}: {who} has no element type')
    page = make_page(ops)
    if '--update' in sys.argv[4:]:
        PAGE.write_text(page, 'utf-8')
    if not PAGE.exists() or PAGE.read_text('utf-8') != page:
        wrong.append('docs/language.md is stale: run tests/compiler/language.py OPT ROOT RECORDS --update (build/compiler/tessera.json)')
    print('\n'.join(wrong))
    print(f'{len(ops)} ops, {sum(bool(op["example"]) for op in ops)} examples, {len(wrong)} wrong')
    sys.exit(bool(wrong) or not ops)


main()
