#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Every op, attribute and type of the generated pages has a summary, and every op a description. Arguments: the pages."""
import pathlib
import re
import sys

wrong, count, described = [], 0, 0
for page in sys.argv[1:]:
    sections = re.split(r'^### ', pathlib.Path(page).read_text('utf-8'), flags=re.M)[1:]
    if not sections:
        wrong.append(f'{page}: no ops')
    for section in sections:
        name, _, text = section.partition('\n')
        count += 1
        summary = re.search(r'^_(.+)_$', text, re.M)
        if not re.match(r'`[\w.]+`|\w', name) or (name.startswith('`') and not summary):
            wrong.append(f'{page}: {name} has no summary')
        head = re.split(r'^#### ', re.sub(r'```.*?```', '', text, flags=re.S), flags=re.M)[0]
        has = any(p.strip() and not re.match(r'\s*(_|Syntax:|Traits:|Interfaces:|Effects:)', p) for p in head.split('\n\n'))
        described += has
        if re.match(r'`\w+\.[\w.]+`', name) and not has:
            wrong.append(f'{page}: {name} has no description: what it does, its shapes and types, what is an error')
print('\n'.join(wrong))
print(f'{count} entries of {len(sys.argv) - 1} pages, {described} with a description beside the summary')
sys.exit(bool(wrong) or count == 0)
