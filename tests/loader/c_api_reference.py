#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""docs/c-api-reference.md: every declaration of the public headers (tessera/*.h), with its comment.

c_api_reference.py ROOT            compares the page
c_api_reference.py ROOT --update   writes the page

A header is read as a list of comments and declarations at the left margin. A comment describes the declarations that follow it
without an empty line. The first comment of a header describes the header; `/* ---- TITLE ---- */` begins a section.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1]).resolve()
PAGE = ROOT / 'docs/c-api-reference.md'
HEADERS = ['tessera', 'dlpack', 'trainer', 'config', 'state', 'report', 'tensor', 'result', 'digest', 'identity', 'memory', 'trace', 'arena']
BEGIN = '''# C API reference

Generated from the headers in [tessera/](../tessera/README.md) by `tests/loader/c_api_reference.py`. [c-api.md](c-api.md) has the rules and a program.
'''
TITLE = re.compile(r'/\* ---- (.*?) -*---- ?\*/')
FUNCTION = re.compile(r'\b(tsr_[a-z0-9_]+)\(')


def lines_of(name):
    """The lines between the guards of a header, without preprocessor lines and extern "C"."""
    text = (ROOT / f'tessera/{name}.h').read_text('utf-8').replace('\\\n', '')
    text = re.sub(r'#ifdef __cplusplus\n(extern "C" \{|\})\n#endif\n', '', text)
    return text


def split(text):
    """('comment' | 'code' | 'gap', text) in order."""
    at = 0
    while at < len(text):
        if text.startswith('/*', at):
            end = text.index('*/', at) + 2
            rest = text.find('\n', end)
            yield 'comment', text[at:end]
            at = rest + 1
        elif text[at] == '\n':
            yield 'gap', ''
            at += 1
        elif text[at] == '#':
            end = text.index('\n', at)
            if text.startswith('#define TSR_', at) and 'TSR_API' not in text[at:end] and not text[at:end].endswith('_H'):
                yield 'code', text[at:end]
            at = end + 1
        else:
            depth, end = 0, at
            while text[end] != ';' or depth:
                if text.startswith('/*', end):
                    end = text.index('*/', end)
                depth += {'{': 1, '}': -1}.get(text[end], 0)
                end += 1
            line = text.index('\n', end)
            tail = text[end:line]
            if '/*' in tail and '*/' not in tail:  # a comment beside it that continues
                line = text.index('\n', text.index('*/', end))
            yield 'code', text[at:line]
            at = line + 1


def prose(comment):
    """A comment as Markdown: paragraphs, and code where it is indented by four blanks."""
    body = re.sub(r'^/\*+ ?|\s*\*/$', '', comment)
    lines = [re.sub(r'^ \* ?', '', line) for line in body.split('\n') if 'SPDX-License' not in line]
    out, code = [], False
    for line in lines:
        indented = line.startswith('    ')
        if line.strip() and indented != code:
            out.append('```' if code else '```c')
            code = indented
        elif not line.strip() and code:
            out.append('```')
            code = False
        out.append(line[4:] if code else escape(line))
    if code:
        out.append('```')
    return '\n'.join(out).strip()


def escape(line):
    return re.sub(r'([*<>|\[\]])', r'\\\1', line)


def declared(code):
    code = re.sub(r'\bTSR_API\s+', '', code)
    code = re.sub(r'\bTSR_RESULT\b', 'tsr_result', code)
    code = re.sub(r'\s*__attribute__\(\(.*?\)\)\)?', '', code, flags=re.S)
    code = re.sub(r'\bTSR_MUST_USE ', '', code)
    return code if '{' in code else re.sub(r'\n +', '\n    ', code)


def header(name):
    """The section of a header, and its functions."""
    out, functions, first, block = [f'## {name}.h'], [], True, []

    def flush():
        if block:
            out.append('```c\n' + '\n'.join(block) + '\n```')
            block.clear()
    for kind, text in split(lines_of(name)):
        if kind == 'gap':
            flush()
        elif kind == 'comment':
            flush()
            title = TITLE.match(text)
            out.append(f'### {title.group(1)[0].upper()}{title.group(1)[1:]}' if title else prose(text))
        elif not first or not text.startswith('#'):
            code = declared(text)
            functions += FUNCTION.findall(re.sub(r'/\*.*?\*/', '', text, flags=re.S)) if text.startswith('TSR_API') else []
            block.append(code)
        first = False
    flush()
    return '\n\n'.join(part for part in out if part), functions


def page():
    parts, rows = [], []
    for name in HEADERS:
        text, functions = header(name)
        parts.append(text)
        rows += [f'| [{name}.h](#{name}h) | {", ".join(f"`{f}`" for f in functions) or "types alone"} |']
    missing = {path.stem for path in (ROOT / 'tessera').glob('*.h')} - set(HEADERS)
    assert not missing, f'headers that the page lacks: {missing}'
    text = '\n\n'.join([BEGIN.strip(), '| header | functions |\n|---|---|\n' + '\n'.join(rows), *parts]) + '\n'
    for name in HEADERS:
        for function in re.findall(r'^TSR_API [^;]*?\b(tsr_[a-z0-9_]+)\(', lines_of(name), re.M):
            assert f'`{function}`' in text and f'{function}(' in text, f'{function} of {name}.h is not in the page'
    return text


TEXT = page()
if '--update' in sys.argv[2:]:
    PAGE.write_text(TEXT, 'utf-8')
elif not PAGE.exists() or PAGE.read_text('utf-8') != TEXT:
    sys.exit('docs/c-api-reference.md is not what the headers say; write it with: tests/python tests/loader/c_api_reference.py . --update')
