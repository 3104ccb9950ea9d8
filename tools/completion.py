#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the completion of a tool for a shell, or its manual page, from what the tool says of itself: the tables of its options.

usage: completion.py bash|zsh|fish|man PROGRAM >FILE

PROGRAM is a built tessera-run, tessera-aot or tessera-opt. Its --help prints one line for each row of its tables ("  --name VALUE  help"),
and one for each command.
"""
import collections
import os
import re
import subprocess
import sys

Flag = collections.namedtuple("Flag", "name value help")
Command = collections.namedtuple("Command", "name arguments about flags notes")

# Values that name files; others are free text, or a choice between words ("auto|never|GEN").
FILES = {"FILE", "DIR", "OUT", "KEY", "PUB", "OLD", "PATH", "NAME=PATH"}
FLAG = re.compile(r"^  (-{1,2}[A-Za-z][\w-]*)(?:[ =]([^ ]+))?  *(\S.*)?$")
WORDS = {"--help": "print the options, and what they mean", "--version": "print the version"}


def run(*words):
    return subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout


def read_flags(text):
    flags = []
    for line in text.splitlines():
        if line.startswith("passes of MLIR"):
            break  # any pass of MLIR may be given, too; there are hundreds
        match = FLAG.match(line)
        if match and not line.startswith("  --help,"):
            flags.append(Flag(match[1], match[2], match[3] or ""))
    names = {flag.name for flag in flags}
    return flags + [Flag(name, None, text) for name, text in WORDS.items() if name not in names]


def read_tool(path):
    """The usage, the flags of the tool itself, and its commands."""
    name, text = os.path.basename(path), run(path, "--help")
    usage = text.split("\n\n")[0]
    if name == "tessera-aot":
        commands = []
        for word in re.findall(r"^  ([a-z]+) +\S", text, re.MULTILINE):
            said = run(path, word, "--help")
            head, _, rest = said.partition("\n\n")
            first, _, about = head.partition("\n")
            body, _, notes = rest.partition("\n\n")
            flags = [flag for flag in read_flags(body) if flag.name != "--version"]
            commands.append(Command(word, first.split(word, 1)[1].strip(), about, flags, notes.strip()))
        return usage, [Flag(key, None, value) for key, value in WORDS.items()], commands
    flags = read_flags(text)
    commands = []
    if name == "tessera-run":
        for match in re.finditer(r"^ +tessera-run ([a-z]+) (.*?)(?:  +(\S.*)|\n +(\S.*))$", usage, re.MULTILINE):
            own = [flag for flag in flags if flag.name in match[2].split() or flag.name.strip("[]") in re.findall(r"--?[\w-]+", match[2])]
            commands.append(Command(match[1], match[2].strip(), match[3] or match[4], own, ""))
    return usage, flags, commands


def choices(value):
    """The words of a value that are written as they are."""
    if not value or value in FILES or "|" not in value:
        return []
    return [word for word in value.split("|") if re.fullmatch(r"[a-z][a-z0-9-]*", word)]


def takes_file(flag):
    return flag.value in FILES


def all_flags(flags, commands):
    found = {flag.name: flag for flag in flags}
    for command in commands:
        for flag in command.flags:
            found.setdefault(flag.name, flag)
    return list(found.values())


# ---- bash ----

def bash(name, flags, commands):
    ident = "_" + name.replace("-", "_")
    every = all_flags(flags, commands)
    lines = [f"# Completion of {name} for bash; made from its tables of options.", f"{ident}() {{",
             '    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" command="${COMP_WORDS[1]-}" flags',
             "    COMPREPLY=()",
             '    if [ "$word" = "=" ]; then word=; elif [ "$before" = "=" ]; then before="${COMP_WORDS[COMP_CWORD-2]-}"; fi',
             '    case "$before" in']
    for flag in every:
        if flag.value and choices(flag.value):
            lines.append(f"    {flag.name}) mapfile -t COMPREPLY < <(compgen -W '{' '.join(choices(flag.value))}' -- \"$word\"); return ;;")
    files = "|".join(flag.name for flag in every if takes_file(flag))
    if files:
        lines.append(f'    {files}) mapfile -t COMPREPLY < <(compgen -f -- "${{word#*=}}"); return ;;')
    free = "|".join(flag.name for flag in every if flag.value and not takes_file(flag) and not choices(flag.value))
    if free:
        lines.append(f"    {free}) return ;;")
    lines += ["    esac", f"    flags='{' '.join(flag.name for flag in flags)}'", '    case "$command" in']
    for command in commands:
        own = " ".join(flag.name for flag in command.flags)
        lines.append(f"    {command.name}) flags='{own}' ;;")
    lines += ["    esac", '    case "$word" in', '    -*) mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$word"); return ;;', "    esac",
              '    mapfile -t COMPREPLY < <(compgen -f -- "$word")']
    if commands:
        lines.append(f"    [ \"$COMP_CWORD\" -ne 1 ] || mapfile -t -O \"${{#COMPREPLY[@]}}\" COMPREPLY < <(compgen -W "
                     f"'{' '.join(c.name for c in commands)}' -- \"$word\")")
    return "\n".join(lines + ["}", f"complete -o filenames -F {ident} {name}", ""])


# ---- zsh ----

def zsh_quote(text):
    return text.replace("'", "'\\''").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")


def zsh_flags(flags, indent):
    lines = []
    for flag in flags:
        action = ""
        if flag.value:
            words = choices(flag.value)
            action = f":{zsh_quote(flag.value)}:" + ("_files" if takes_file(flag) else f"({' '.join(words)})" if words else "")
        lines.append(f"{indent}'*{flag.name}[{zsh_quote(flag.help)}]{action}' \\")
    return lines


def zsh(name, flags, commands):
    lines = [f"#compdef {name}", f"# Completion of {name} for zsh; made from its tables of options.", "", 'case "$words[2]" in']
    for command in commands:
        lines += [f"{command.name})", "    _arguments \\"] + zsh_flags(command.flags, "        ") + ["        '*:file:_files'", "    ;;"]
    lines += ["*)", "    _arguments \\"] + zsh_flags(flags, "        ")
    lines.append("        '1:command or file:_files' \\" if not commands else
                 "        '1:command or file:{ _files; compadd " + " ".join(c.name for c in commands) + " }' \\")
    return "\n".join(lines + ["        '*:file:_files'", "    ;;", "esac", ""])


# ---- fish ----

def fish_quote(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def fish_flag(name, flag, condition):
    letters = flag.name.lstrip("-")
    kind = "-l" if flag.name.startswith("--") else "-s" if len(letters) == 1 else "-o"
    value = ""
    if flag.value:
        words = choices(flag.value)
        value = " -r -F" if takes_file(flag) else f" -x -a {fish_quote(' '.join(words))}" if words else " -x"
    return f"complete -c {name}{condition} {kind} {letters}{value} -d {fish_quote(flag.help)}"


def fish(name, flags, commands):
    lines = [f"# Completion of {name} for fish; made from its tables of options."]
    names = " ".join(c.name for c in commands)
    for command in commands:
        lines.append(f"complete -c {name} -n 'not __fish_seen_subcommand_from {names}' -a {command.name} -d {fish_quote(command.about)}")
        lines += [fish_flag(name, flag, f" -n '__fish_seen_subcommand_from {command.name}'") for flag in command.flags]
    outside = f" -n 'not __fish_seen_subcommand_from {names}'" if commands else ""
    lines += [fish_flag(name, flag, outside) for flag in flags]
    return "\n".join(lines) + "\n"


# ---- man ----

def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join("\\&" + line if line.startswith((".", "'")) else line for line in text.split("\n"))


def man_flags(flags):
    lines = []
    for flag in flags:
        value = f" \\fI{roff(flag.value)}\\fR" if flag.value else ""
        lines += [".TP", f"\\fB{roff(flag.name)}\\fR{value}", roff(flag.help) or "\\&"]
    return lines


def man(name, flags, commands, usage, version):
    about = {"tessera-run": "trains, evaluates, calls or checks a bundle", "tessera-aot": "makes and examines bundles",
             "tessera-opt": "runs passes over a program in text form"}[name]
    lines = [f".TH {name.upper().replace('-', chr(92) + '-')} 1 \"\" \"{roff(version)}\" \"Tessera\"", ".SH NAME", f"{roff(name)} \\- {about}",
             ".SH SYNOPSIS", ".nf", roff(usage.replace("usage:", "      ", 1)), ".fi"]
    if commands:
        lines.append(".SH COMMANDS")
        for command in commands:
            lines += [".SS", f"{roff(name)} {roff(command.name)} {roff(command.arguments)}", roff(command.about)]
            if name == "tessera-aot":
                lines += man_flags(command.flags)
            if command.notes:
                lines += [".PP", ".nf", roff(command.notes), ".fi"]
    lines += [".SH OPTIONS"] + man_flags(flags)
    lines += [".SH EXIT STATUS", "0 means success. docs/exit\\-codes.md of the sources lists the other codes.", ".SH SEE ALSO",
              ", ".join(f"\\fB{roff(other)}\\fR(1)" for other in ("tessera-aot", "tessera-opt", "tessera-run") if other != name)]
    return "\n".join(lines) + "\n"


def main():
    form, path = sys.argv[1:3]
    name = os.path.basename(path)
    usage, flags, commands = read_tool(path)
    if form == "man":
        text = man(name, flags, commands, usage, run(path, "--version").splitlines()[0])
    else:
        text = {"bash": bash, "zsh": zsh, "fish": fish}[form](name, flags, commands)
    sys.stdout.write(text)


main()
