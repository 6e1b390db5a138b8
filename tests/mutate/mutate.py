#!/usr/bin/env python3
"""How strong are the tests?  Change one thing in a copy of the sources, and see who notices.

usage: mutate.py TREE N SEED [FILE...]

TREE is a copy of the project, which is built and changed.  Each mutant changes one operator,
constant or statement of src/relay, src/outbox or src/store (or of FILE...).  The tests that
run the changed line are run, the quickest first, until one fails.  A mutant that no test
kills is alive: it is printed with its line.  tests/mutate/equivalent.txt lists mutants that
change nothing anybody can see, each with the reason.

WHERRY_MUTATE_TESTS: a regular expression; only tests with such names are asked.
"""
import json
import os
import random
import re
import subprocess
import sys
import time

FOLDERS = ("src/relay/", "src/outbox/", "src/store/")
TESTS = os.environ.get("WHERRY_MUTATE_TESTS") or \
    r"^(unit|conformance|fault)_|^sim_schedules_test_0$"
OBJECTS = "CMakeFiles/wherry_objects.dir"

SWAPS = [("==", "!="), ("!=", "=="), ("<=", "<"), (">=", ">"), ("<", "<="), (">", ">="),
         ("&&", "||"), ("||", "&&"), ("+=", "-="), ("-=", "+="), ("+", "-"), ("-", "+"),
         ("true", "false"), ("false", "true"), ("!", "")]
TOKEN = re.compile(r"==|!=|<=|>=|&&|\|\||\+=|-=|->|\+\+|--|<<|>>|[<>!]|(?<= )[+-](?= )"
                   r"|\b(?:true|false)\b|(?<![\w.])\d+(?![\w.])")
STATEMENT = re.compile(r"^\t+(?!return\b|goto\b|break\b|continue\b|case\b|default\b|const\b"
                       r"|static\b|struct\b|enum\b|typedef\b)[a-z_][\w>.\[\]-]*"
                       r"(?:\(.*\)| [-+|&]?= .*|\+\+|--);$")


def say(text):
    print(text, flush=True)


def run(command, seconds, env=None, cwd=None):
    """The exit code and the output; a run that takes too long has failed."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=seconds, env=env, cwd=cwd)
        return done.returncode, done.stdout.decode(errors="replace")
    except subprocess.TimeoutExpired as late:
        return 124, (late.stdout or b"").decode(errors="replace")


def build(tree, preset, targets=()):
    folder = f"{tree}/build/{preset}"
    if not os.path.exists(f"{folder}/build.ninja"):
        code, out = run(["cmake", "--preset", preset, "-B", folder, "-D", "WHERRY_WERROR=OFF"],
                        600, cwd=tree)
        if code:
            sys.exit(out)
    return run(["ninja", "-C", folder, *targets], 1200, cwd=tree)


def listed(tree, preset):
    """Name, path and argument of each test that may notice."""
    tests = []
    for line in open(f"{tree}/build/{preset}/tests/list.txt"):
        name, path, argument = line.rstrip("\n").split("\t")
        if re.search(TESTS, name) and not path.endswith(".sh"):
            tests.append((name, [path] + ([argument] if argument else [])))
    return tests


def environment(tree, preset, **more):
    return dict(os.environ, WHERRY_BUILD=f"{tree}/build/{preset}", WHERRY_SOURCE=tree,
                CMOCKA_MESSAGE_OUTPUT="TAP", **more)


def passes(command, seconds, env):
    code, out = run(command, seconds, env)
    return code == 0 and not re.search(r"^not ok", out, re.M)


def reached(tree, prefix):
    """The lines of the folders above that a test ran: {file: {line, ...}}."""
    lines = {}
    root = f"{prefix}{tree}/build/coverage/{OBJECTS}"
    for folder, _, names in os.walk(root):
        for name in names:
            source = os.path.relpath(f"{folder}/{name}", root)[:-len(".gcda")]
            if not name.endswith(".gcda") or not source.startswith(FOLDERS):
                continue
            note = f"{tree}/build/coverage/{OBJECTS}/{source}.gcno"
            os.symlink(note, f"{folder}/{name[:-5]}.gcno")
            _, out = run(["gcov", "--json-format", "--stdout", f"{folder}/{name}"], 60)
            for file in json.loads(out)["files"]:
                if file["file"].endswith(source):
                    lines[source] = {at["line_number"] for at in file["lines"]
                                     if at["count"]}
    return lines


def survey(tree):
    """Which tests run which lines, and how long each takes."""
    code, out = build(tree, "coverage")
    if code:
        sys.exit(out)
    seen, seconds = {}, {}
    tests = listed(tree, "coverage")
    for n, (name, command) in enumerate(tests):
        prefix = f"{tree}/build/seen/{name}"
        subprocess.run(["rm", "-rf", prefix], check=True)
        began = time.monotonic()
        ok = passes(command, 600, environment(tree, "coverage", GCOV_PREFIX=prefix))
        seconds[name] = time.monotonic() - began
        say(f"# {n + 1}/{len(tests)} {name}: {seconds[name]:.0f} s" +
            ("" if ok else ", fails without any change: left out"))
        if not ok:
            continue
        for source, lines in reached(tree, prefix).items():
            for line in lines:
                seen.setdefault(source, {}).setdefault(line, []).append(name)
    return {"seen": seen, "seconds": seconds}


def blanked(text):
    """The text with comments and literals as blanks: what is left is code."""
    return re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'',
                  lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.S)


def changes(text):
    """Every (line, column, end, replacement, what) that the text of a file allows."""
    for n, line in enumerate(blanked(text).split("\n"), 1):
        if line.startswith("#") or not line.startswith("\t"):
            continue
        if STATEMENT.match(line):
            at = len(line) - len(line.lstrip("\t"))
            yield n, at, len(line), ";", "statement removed"
        for token in TOKEN.finditer(line):
            word = token.group()
            new = dict(SWAPS).get(word)
            if word.isdigit():
                new = str(int(word) + 1)
            if new is not None:
                yield n, token.start(), token.end(), new, f"{word} becomes {new or 'nothing'}"


def mutants(tree, files):
    found = []
    for file in files:
        for change in changes(open(f"{tree}/{file}").read()):
            found.append((file, *change))
    return found


def equivalents(tree):
    """What is known to make no difference: "FILE | LINE'S TEXT | CHANGE | REASON"."""
    known = set()
    path = f"{tree}/tests/mutate/equivalent.txt"
    for line in open(path) if os.path.exists(path) else ():
        if line.strip() and not line.startswith("#"):
            known.add(tuple(part.strip() for part in line.split("|")[:3]))
    return known


def trial(tree, mutant, tests, seconds):
    """Who killed it: a test's name; None: it is alive; False: it does not compile."""
    file, n, start, end, new, _ = mutant
    path = f"{tree}/{file}"
    text = open(path).read()
    lines = text.split("\n")
    lines[n - 1] = lines[n - 1][:start] + new + lines[n - 1][end:]
    try:
        with open(path, "w") as out:
            out.write("\n".join(lines))
        if build(tree, "dev", ["CMakeFiles/wherry_objects.dir/" + file + ".o"])[0]:
            return False
        commands = dict(listed(tree, "dev"))
        for name in sorted(tests, key=seconds.get):
            command = commands[name]
            build(tree, "dev", [os.path.relpath(command[0], f"{tree}/build/dev")])
            if not passes(command, 20 + 5 * seconds[name], environment(tree, "dev")):
                return name
        return None
    finally:
        with open(path, "w") as out:
            out.write(text)


def main():
    tree, n, seed = os.path.abspath(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    files = sys.argv[4:] or subprocess.run(
        ["git", "ls-files", "src/relay", "src/outbox", "src/store"], check=True,
        stdout=subprocess.PIPE, text=True).stdout.split()
    files = [file for file in files if file.endswith(".c")]
    os.makedirs(f"{tree}/build", exist_ok=True)
    map_file = f"{tree}/build/seen.json"

    if not os.path.exists(map_file):
        say("# Finding out which tests run which lines")
        with open(f"{map_file}.new", "w") as out:
            json.dump(survey(tree), out)
        os.rename(f"{map_file}.new", map_file)
    survey_of = json.load(open(map_file))
    if build(tree, "dev")[0]:
        sys.exit("the build of the copy fails")

    known, tally, alive = equivalents(tree), {}, []
    drawn = mutants(tree, files)
    random.Random(seed).shuffle(drawn)
    for mutant in drawn:
        file, line, _, _, _, what = mutant
        text = open(f"{tree}/{file}").read().split("\n")[line - 1].strip()
        tests = survey_of["seen"].get(file, {}).get(str(line), [])
        if sum(tally.values()) >= n:
            break
        if (file, text, what) in known:
            became = "equivalent"
        elif not tests:
            became = "not reached"
        else:
            killer = trial(tree, mutant, tests, survey_of["seconds"])
            if killer is False:
                continue
            became = "killed" if killer else "alive"
        tally[became] = tally.get(became, 0) + 1
        say(f"{became}: {file}:{line}: {what}: {text}" +
            (f" ({killer})" if became == "killed" else ""))
    say(", ".join(f"{count} {kind}" for kind, count in sorted(tally.items())))
    sys.exit(1 if tally.get("alive") or tally.get("not reached") else 0)


main()
