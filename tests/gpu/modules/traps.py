# SPDX-License-Identifier: Apache-2.0
"""Bundles with a kernel that traps on a GPU, an error that no call after it is free of: its PTX is changed on the way to ptxas."""
import contextlib
import os
import pathlib
import re
import shutil
import tempfile

from program import call

# Hands PTX on to ptxas, with more instructions where the kernel begins.
WRAPPER = """#!/bin/sh
set -eu
[ "$1" != --version ] || exec {ptxas} --version
for source; do :; done
awk '/^[.]visible [.]entry {kernel}\\(/ {{ inside = 1 }}
    inside && /^[ \t]*(@|[a-z])/ {{ print "{more}"; inside = 0; found = 1 }}
    {{ print }} END {{ exit !found }}' "$source" >{work}/$$.ptx
exec {ptxas} "$1" "$2" "$3" "$4" {work}/$$.ptx
"""
# What begins a row of bytes where `on_mark` traps. Threads of a block look at a row each.
MARK = 255
ON_MARK = ' '.join("""{{ .reg .pred inside, marked; .reg .b32 row, value; .reg .b64 base, at;
ld.param.b64 base, [{kernel}_param_0]; cvta.to.global.u64 base, base;
mov.u32 row, %tid.x; setp.lt.u32 inside, row, {rows}; mad.wide.u32 at, row, {columns}, base;
mov.b32 value, 0; @inside ld.global.u8 value, [at]; setp.eq.u32 marked, value, {mark}; @marked trap; }}""".split())


def read_region(aot, source):
    """The program of entry `train` for a GPU, as text, and of it what lies in the region `forward`."""
    with tempfile.TemporaryDirectory() as work:
        text = call(aot, 'build', source, '-o', f'{work}/x.tsb', '--target', 'cuda:sm_90a', '--dump', 'program')
    text = text[re.search('^entry @train ', text, re.M).start():]
    return text, re.search(r': enter "forward" (.*?): leave ', text, re.S)[1]


def at_once(aot, source):
    """The last kernel of the region, and a trap."""
    return re.findall(r': launch @(\S+) ', read_region(aot, source)[1])[-1], 'trap;'


def on_mark(aot, source, name):
    """The first kernel of the region that reads the input `name` before all else, and a trap where one of its rows begins with MARK."""
    text, inside = read_region(aot, source)
    value, rows, columns = re.search(rf'^ *(%\d+) = input {name} : (\d+)x(\d+)xui8$', text, re.M).groups()
    kernel = re.search(rf': launch @(\S+) .* read {value}[, ]', inside)[1]
    return kernel, ON_MARK.format(kernel=kernel, rows=rows, columns=columns, mark=MARK)


@contextlib.contextmanager
def assembler(kernel, more):
    """The path of a ptxas that puts these instructions before those of the kernel."""
    ptxas = shutil.which('ptxas', path=f'{os.environ["PATH"]}:/usr/local/cuda/bin')
    if not ptxas:
        raise SystemExit('there is no ptxas: a kernel that traps is assembled by it')
    with tempfile.TemporaryDirectory() as work:
        path = pathlib.Path(work, 'ptxas')
        path.write_text(WRAPPER.format(ptxas=ptxas, kernel=re.escape(kernel), more=more, work=work), 'utf-8')
        path.chmod(0o755)
        yield path
