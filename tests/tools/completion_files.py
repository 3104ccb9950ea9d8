# SPDX-License-Identifier: Apache-2.0
"""The completions and manual pages have every option of the tables in the sources, and bash completes with them.

usage: completion_files.py SOURCE_ROOT FILE...

FILE is what tools/completion.py made. One check is skipped without zsh or fish.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT, FILES = pathlib.Path(sys.argv[1]).resolve(), [pathlib.Path(path).resolve() for path in sys.argv[2:]]
ROW = re.compile(r'(?:^X\(|TSR_FLAG\()\s*"(-[^"]+)",\s*(\w+)', re.MULTILINE)
checks = skips = 0


def need(condition, text):
    global checks
    checks += 1
    assert condition, text


def rows(*paths):
    """The options of tables and of rows in C: name, and whether it takes a value."""
    return {name: kind != "SWITCH" for path in paths for name, kind in ROW.findall((ROOT / path).read_text("utf-8"))}


def aot_commands():
    """By command: the rows of its file, and of the tables that it includes."""
    tables = {"build": ["tools/aot/build.def"], "tune": ["tools/aot/tune.def"], "push": ["tools/aot/remote.def"], "pull": ["tools/aot/remote.def"]}
    found = {}
    for table in ("tools/aot/commands.def", "tools/aot/compiler_commands.def"):
        for name in re.findall(r'^X\(\w+, "(\w+)"', (ROOT / table).read_text("utf-8"), re.MULTILINE):
            source = "tools/aot/diff/diff.c" if name == "diff" else f"tools/aot/{name}.c"
            found[name] = rows(source, *tables.get(name, []))
    return found


def run_commands():
    """By command: the rows of flags.def that apply to it, without those of all commands."""
    modes = {"fsck": "MODE_FSCK", "ls": "MODE_LIST", "prune": "MODE_PRUNE", "export": "MODE_EXPORT_STATE", "plot": "MODE_PLOT"}
    cases = re.findall(r"case (MODE_\w+):\s*return \"(\w+)\"", (ROOT / "tools/tessera-run.c").read_text("utf-8"))
    need({name: mode for mode, name in cases if name in modes} == modes, f"{cases}")
    table = re.findall(r'^X\("(-[^"]+)",.*, ([^,]+)\)$', (ROOT / "tools/run/flags.def").read_text("utf-8"), re.MULTILINE)
    need(len(table) == len(rows("tools/run/flags.def")) and all(re.fullmatch(r"\w+( \| \w+)*", accepted) for _, accepted in table), f"{table}")
    return {command: {name for name, accepted in table if mode in accepted.split(" | ")} for command, mode in modes.items()}


def opt_flags():
    text = (ROOT / "tools/tessera-opt.c").read_text("utf-8")
    return {"--" + name.split("=")[0]: "=" in name for name in re.findall(r'strcmp\(name, "([^"]+)"\)', text)}


def stands(form, text, name):
    plain = name.lstrip("-")
    if form == "fish":
        return re.search(rf" -(?:l|s|o) {re.escape(plain)}(?: |$)", text, re.MULTILINE)
    if form == "man":
        return re.search(r"^\\fB" + re.escape(name.replace("-", "\\-")) + r"\\fR", text, re.MULTILINE)
    if form == "zsh":
        return f"'*{name}[" in text
    return re.search(rf"[ ']{re.escape(name)}[ ']", text)


def bash_complete(path, name, *words):
    """What bash offers after these words; the last one is being typed."""
    script = f'source "{path}"; COMP_WORDS=({name} "$@"); COMP_CWORD=$#; _{name.replace("-", "_")}; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", script, "bash", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    need(done.returncode == 0 and not done.stderr, f"{name} {words}: {done.stderr}")
    return set(done.stdout.split())


def check_bash(files):
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        pathlib.Path("digits.tsb").touch()
        pathlib.Path("metrics.jsonl").touch()
        cases = [
            ("tessera-run", ["--sta"], {"--state-dir"}), ("tessera-run", ["--keep"], {"--keep", "--keep-best"}),
            ("tessera-run", ["digits.tsb", "--resume", ""], {"auto", "never", "best"}), ("tessera-run", ["digits.tsb", "--resume", "a"], {"auto"}),
            ("tessera-run", ["digits.tsb", "--metrics", "m"], {"metrics.jsonl"}), ("tessera-run", ["--steps", ""], set()),
            ("tessera-run", ["pl"], {"plot"}), ("tessera-run", ["d"], {"digits.tsb"}), ("tessera-run", ["plot", "m"], {"metrics.jsonl"}),
            ("tessera-run", ["digits.tsb", "--check-finite", "=", "w"], {"warn"}), ("tessera-run", ["ls", "S", "--v"], {"--verify"}),
            ("tessera-aot", ["in"], {"inspect"}), ("tessera-aot", ["inspect", "--ker"], {"--kernels"}), ("tessera-aot", ["inspect", "--virt"], set()),
            ("tessera-aot", ["keygen", "-o", "d"], {"digits.tsb"})]
        if "tessera-opt" in files:
            cases += [("tessera-aot", ["build", "--virt"], {"--virtual-ranks"}), ("tessera-opt", ["-tessera-auto"], {"-tessera-autodiff"}),
                      ("tessera-opt", ["--split"], {"--split-input-file"}), ("tessera-opt", ["--diagnostics", "=", "j"], {"json"})]
        for name, words, want in cases:
            got = bash_complete(files[name]["bash"], name, *words)
            need(got == want, f"{name} {words}: {got}; expected {want}")
        for command, want in run_commands().items():
            got = bash_complete(files["tessera-run"]["bash"], "tessera-run", command, "-")
            need(got == want, f"tessera-run {command}: {got}; expected {want}")
        os.chdir(ROOT)


def check_shells(files):
    global skips
    for name in files:
        subprocess.run(["bash", "-n", files[name]["bash"]], check=True)
        for shell in ("zsh", "fish"):
            if shutil.which(shell):
                need(subprocess.run([shell, "-n", files[name][shell]], check=False).returncode == 0, f"{shell}: {name}")
        if shutil.which("groff"):
            done = subprocess.run(["groff", "-man", "-ww", "-Tutf8", files[name]["man"]], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True)
            need(not done.stderr and len(done.stdout) > 1000, f"groff: {name}: {done.stderr.decode()}")
    skips += not (shutil.which("zsh") and shutil.which("fish"))


def main():
    files = {}
    for path in FILES:
        form = {".bash": "bash", ".fish": "fish", ".1": "man"}.get(path.suffix, "zsh")
        files.setdefault(path.stem.lstrip("_"), {})[form] = path
    need(set(files) >= {"tessera-run", "tessera-aot"} and all(len(forms) == 4 for forms in files.values()), f"{files}")
    commands = aot_commands()
    compiles = "tessera-opt" in files
    if not compiles:
        commands = {name: flags for name, flags in commands.items() if name not in ("build", "import")}
    tables = {"tessera-run": rows("tools/run/flags.def"), "tessera-aot": {name: value for flags in commands.values() for name, value in flags.items()}}
    if compiles:
        tables["tessera-opt"] = opt_flags()
    for name, flags in tables.items():
        need(len(flags) > 5, f"{name}: only {len(flags)} options were found in the sources")
        for form, path in files[name].items():
            text = path.read_text("utf-8")
            for flag in [*flags, "--help", "--version"]:
                need(stands(form, text, flag), f"{path.name} has no {flag}")
    for form, path in files["tessera-aot"].items():
        text = path.read_text("utf-8")
        for command in commands:
            need(re.search(rf"\b{command}\b", text), f"{path.name} has no command {command}")
    takes = files["tessera-run"]["fish"].read_text("utf-8")
    for flag, value in tables["tessera-run"].items():
        line = next(line for line in takes.splitlines() if stands("fish", line, flag))
        need((" -r" in line or " -x" in line) == value, f"whether {flag} takes a value: {line}")
    check_bash(files)
    check_shells(files)
    print(f"{checks} checks, 0 failed, {skips} skipped")


main()
