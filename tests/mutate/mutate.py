#!/usr/bin/env python3
"""How strong are the tests?  Change one thing in a copy of the sources, and see who notices.

usage: mutate.py TREE N SEED [FILE...]

TREE becomes a copy of the project's files.  Later runs copy and build only what changed.  Each
mutant changes one operator, constant or statement of src/relay, src/outbox or src/store (or of
FILE...; FILE:LINE changes only that line).  The program runs the test cases that run the changed
line, until one fails.  If none fails, the mutant is alive and is printed with its line.

A mutant is equivalent if nobody can see the difference.  tests/mutate/equivalent.txt lists
such mutants with their reasons.  A mutant whose optimized code is the same needs no line there.

TREE/build/tried.json keeps the results.  The next run first asks the case that killed a
mutant.  A program that did not notice a mutant is asked again when the program has changed.

WHERRY_MUTATE_TESTS: a regular expression; only tests with such names are asked.
WHERRY_MUTATE_SECONDS: cases are asked about a mutant until they would take longer (150).
WHERRY_MUTATE_JOBS: mutants tried at once (2).
"""
import concurrent.futures
import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import threading
import time

import survey

FOLDERS = ("src/relay/", "src/outbox/", "src/store/")
TESTS = os.environ.get("WHERRY_MUTATE_TESTS") or \
    r"^(unit|store|conformance|fault)_|^publish_.*queue|^sim_schedules_test_0$"
SECONDS = float(os.environ.get("WHERRY_MUTATE_SECONDS") or 150)
JOBS = int(os.environ.get("WHERRY_MUTATE_JOBS") or 2)
MOST_SECONDS = 900  # of a program whose cases are surveyed
MOST_WHOLE = 60     # of a program that can only be run as a whole

SWAPS = {"==": "!=", "!=": "==", "<=": "<", ">=": ">", "<": "<=", ">": ">=", "&&": "||",
         "||": "&&", "+=": "-=", "-=": "+=", "+": "-", "-": "+", "true": "false",
         "false": "true", "!": ""}
TOKEN = re.compile(r"==|!=|<=|>=|&&|\|\||\+=|-=|->|\+\+|--|<<|>>|[<>!]|(?<= )[+-](?= )"
                   r"|\b(?:true|false)\b|(?<![\w.])\d+(?![\w.])")
STATEMENT = re.compile(r"^\t+(?!return\b|goto\b|break\b|continue\b|case\b|default\b|const\b"
                       r"|static\b|struct\b|enum\b|typedef\b)[a-z_][\w>.\[\]-]*"
                       r"(?:\(.*\)| [-+|&]?= .*|\+\+|--);$")

lock = threading.Lock()


def say(text):
    with lock:
        print(text, flush=True)


# ---- the copy ----

def refresh(tree):
    """Make the copy's files those of the project; leave alone what is the same."""
    names = subprocess.run(["git", "ls-files", "-z", "-co", "--exclude-standard"], check=True,
                           stdout=subprocess.PIPE, text=True).stdout.split("\0")
    names = {name for name in names if name and os.path.isfile(name)}
    for folder, below, files in os.walk(tree):
        if folder == tree and "build" in below:
            below.remove("build")
        for name in files:
            path = os.path.join(folder, name)
            if os.path.relpath(path, tree) not in names:
                os.remove(path)
    for name in names:
        path, data = f"{tree}/{name}", open(name, "rb").read()
        if os.path.exists(path) and open(path, "rb").read() == data:
            continue
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as out:
            out.write(data)
        os.chmod(path, os.stat(name).st_mode)


def build(tree):
    folder, cases = f"{tree}/build/mutate", f"{tree}/build/cases.o"
    source = f"{tree}/tests/mutate/cases.c"
    commands = [["ninja", "-C", folder]]
    if not os.path.exists(cases) or os.path.getmtime(cases) < os.path.getmtime(source):
        subprocess.run(["rm", "-rf", folder], check=True)
        commands.insert(0, ["cc", "-D_GNU_SOURCE", "-O1", "-g", "-c", source, "-o", cases])
    if not os.path.exists(f"{folder}/build.ninja"):
        commands.insert(-1, ["cmake", "--preset", "dev", "-B", folder,
                             "-D", "WHERRY_WERROR=OFF", "-D", "WHERRY_BENCH=OFF",
                             "-D", "WHERRY_EXAMPLES=OFF",
                             "-D", "CMAKE_C_FLAGS=-O0 -fsanitize-coverage=trace-pc",
                             "-D", f"CMAKE_EXE_LINKER_FLAGS={cases}"])
    for command in commands:
        done = subprocess.run(command, cwd=tree, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            sys.exit(done.stdout)


def listed(tree):
    """{name: command} of each test that may notice."""
    tests = {}
    for line in open(f"{tree}/build/mutate/tests/list.txt"):
        name, path, argument = line.rstrip("\n").split("\t")
        if re.search(TESTS, name) and "mssql" not in name and not path.endswith(".sh"):
            tests[name] = [path] + ([argument] if argument else [])
    return tests


def environment(tree):
    return dict(os.environ, WHERRY_BUILD=f"{tree}/build/mutate", WHERRY_SOURCE=tree,
                CMOCKA_MESSAGE_OUTPUT="TAP")


def survey_all(tree, tests):
    folder, answers = f"{tree}/build/seen", {}
    os.makedirs(folder, exist_ok=True)

    def one(name):
        found = survey.survey_program(name, tests[name], environment(tree), folder, FOLDERS,
                                      MOST_SECONDS)
        why = "fails without any change" if found["code"] else \
            "takes too long" if not has_cases(found) and found["seconds"] > MOST_WHOLE else ""
        if why:
            say(f"# {name} is left out: {why}")
        else:
            answers[name] = found
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        list(pool.map(one, tests))
    return answers


def has_cases(answer):
    return any(name != "*" for _, _, name, _ in answer["cases"])


# ---- mutants ----

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
        counts = {}
        for token in TOKEN.finditer(line):
            word = token.group()
            new = str(int(word) + 1) if word.isdigit() else SWAPS.get(word)
            if new is not None:
                counts[word] = counts.get(word, 0) + 1
                which = f" (number {counts[word]})" if counts[word] > 1 else ""
                yield (n, token.start(), token.end(), new,
                       f"{word} becomes {new or 'nothing'}{which}")


def mutants(tree, places):
    """The changes of each place, which is FILE or FILE:LINE."""
    found = []
    for file, _, line in (place.partition(":") for place in places):
        found += [(file, *change) for change in changes(open(f"{tree}/{file}").read())
                  if not line or change[0] == int(line)]
    return found


def equivalents(tree):
    """What is known to make no difference: "PLACE | LINE'S TEXT | CHANGE | REASON"; PLACE is a
    file, or FILE:FUNCTION if the line's text stands in several functions."""
    known = set()
    path = f"{tree}/tests/mutate/equivalent.txt"
    for line in open(path) if os.path.exists(path) else ():
        if line.strip() and not line.startswith("#"):
            place, *text, what, _ = line.strip().split(" | ")
            known.add((place, " | ".join(text), what))
    return known


def name_of_function(text, n):
    """The name of the function around line n; "": it is in none."""
    around = function_of(text, n)
    before = "\n".join(text.split("\n")[:around[0] - 1]) if around else ""
    names = re.findall(r"^[a-z].*?(\w+)\(", before, re.M)
    return names[-1] if names else ""


def function_of(text, n):
    """The first and last line of the function around line n; None: it is in none."""
    lines = text.split("\n")
    first = n
    while first > 0 and not re.match(r"[{}]|\S.*= \{$", lines[first - 1]):
        first -= 1
    if not first or lines[first - 1] != "{":
        return None
    last = n
    while last < len(lines) and not lines[last - 1].startswith("}"):
        last += 1
    return first, last


def lines_like(answers, text, file, n):
    """The lines whose cases may run line n: itself, if it has code; or else those of its
    function, as of a declaration; or all of the file, if it is data."""
    coded = {int(line) for answer in answers.values()
             for line in answer["lines"].get(file, {})}
    around = function_of(text, n)
    if n in coded:
        return {n}
    if not around:
        return coded
    return {line for line in coded if around[0] <= line <= around[1]}


# ---- trials ----

class Trial:
    """One mutant, with the folder in which its programs are linked."""

    def __init__(self, tree, folder, mutant, tests):
        self.tree, self.folder, self.mutant, self.tests = tree, folder, mutant, tests
        self.build = f"{tree}/build/mutate"
        self.file = mutant[0]
        os.makedirs(folder, exist_ok=True)
        text = open(f"{tree}/{self.file}").read()
        lines = text.split("\n")
        _, n, start, end, new, _ = mutant
        lines[n - 1] = lines[n - 1][:start] + new + lines[n - 1][end:]
        self.source = f"{folder}/{os.path.basename(self.file)}"
        self.object = f"CMakeFiles/wherry_objects.dir/{self.file}.o"
        with open(self.source, "w") as out:
            out.write("\n".join(lines))

    def compile(self, source, out, *more):
        words = shlex.split(command_of(self.build, self.object))
        words = [word for word in words if not re.search(r"(^|/)ccache$|^-MD$", word)]
        for option in ("-MT", "-MF"):
            if option in words:
                del words[words.index(option):words.index(option) + 2]
        words[words.index("-o") + 1] = out
        words[words.index("-c") + 1] = source
        folder = os.path.dirname(f"{self.tree}/{self.file}")
        done = subprocess.run(words + ["-w", "-g0", "-iquote", folder, *more],
                              cwd=self.build, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
        return done.returncode == 0

    def compiles(self):
        return self.compile(self.source, f"{self.folder}/mutant.o")

    def is_same_code(self):
        outs = []
        for source in (self.source, f"{self.tree}/{self.file}"):
            out = f"{self.folder}/optimized.o"
            if not self.compile(source, out, "-O2", "-fno-sanitize-coverage=trace-pc"):
                return False
            subprocess.run(["objcopy", "--strip-all", "-R", ".comment", out], check=True)
            outs.append(open(out, "rb").read())
        return outs[0] == outs[1]

    def program(self, name):
        path = self.tests[name][0]
        out = f"{self.folder}/{os.path.basename(path)}"
        if not os.path.exists(out):
            command = command_of(self.build, os.path.relpath(path, self.build))
            command = command.replace(f" {self.object} ", f" {self.folder}/mutant.o ")
            command = re.sub(r" -o \S+", f" -o {out}", command)
            done = subprocess.run(command, shell=True, cwd=self.build,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if done.returncode:
                sys.exit(done.stdout)
        return out

    def run(self, name, cases, changed=True):
        """How the cases of a program end: "ok", "late", or the number of those that ended."""
        command = list(self.tests[name])
        if changed:
            command[0] = self.program(name)
        env = environment(self.tree)
        seconds = 30 + 10 * sum(case[1] for case in cases)
        if cases[0][2] != "*":
            env["WHERRY_CASES"] = "".join(f"{case[0]} " for case in cases)
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, env=env, start_new_session=True)
        try:
            out = child.communicate(timeout=seconds)[0].decode(errors="replace")
        except subprocess.TimeoutExpired:
            child.kill()
            time.sleep(0.2)
            try:
                os.killpg(child.pid, signal.SIGTERM)
            except OSError:
                pass
            child.communicate()
            return "late"
        bad = re.search(r"^not ok", out, re.M)
        if child.returncode == 0 and not bad:
            return "ok"
        return len(re.findall(r"^ok \d", out[:bad.start()] if bad else out, re.M))

    def kills(self, name, cases):
        """The name of a case that notices; or None."""
        while cases:
            ended = self.run(name, cases)
            if ended == "ok":
                return None
            # A machine that is busy kills nobody.
            if ended == "late":
                if self.run(name, cases) == "late" and self.run(name, cases, False) == "ok":
                    return "time is up"
                return None
            at = min(ended, len(cases) - 1)
            for again in ([cases[at]], cases[:at + 1]):
                if self.run(name, again) != "ok" and self.run(name, again, False) == "ok":
                    return cases[at][2]
            cases = cases[at + 1:] # it fails now and then, or alone
        return None


commands = {}


def command_of(build, target):
    """The command with which the build makes a file."""
    with lock:
        if target not in commands:
            commands[target] = subprocess.run(
                ["ninja", "-C", build, "-t", "commands", "-s", target], check=True,
                stdout=subprocess.PIPE, text=True).stdout.strip().split("\n")[-1]
        return commands[target]


def rounds(answers, file, lines, first):
    """(program, cases) in the order in which they are asked: the case that killed this mutant
    before; the cases of each name once, quick programs first; then the others."""
    reach = {}
    for name, answer in answers.items():
        bits = 0
        for line in lines:
            bits |= int(answer["lines"].get(file, {}).get(str(line), "0"), 16)
        cases = [case for n, case in enumerate(answer["cases"]) if bits >> n & 1]
        shared = [case for case in cases if case[2] == "*"]
        if shared and has_cases(answer): # its cases have that line's work before them
            cases = [case for case in answer["cases"] if case[2] != "*"]
        if cases:
            reach[name] = sorted(cases, key=lambda case: case[1])
    if first:
        for name, cases in reach.items():
            for case in cases:
                if (name, case[2]) == first:
                    yield name, [case]
    met, rest = set(), {}

    def cost(name):
        return sum(case[1] for case in reach[name]) + 2 * ("postgres" in name)
    for name in sorted(reach, key=cost):
        new = []
        for case in reach[name]:
            key = ("postgres" in name, case[2].split(": ")[-1] if case[2] != "*" else name)
            (rest.setdefault(name, []) if key in met else new).append(case)
            met.add(key)
        if new:
            yield name, new
    for name in rest:
        yield name, rest[name]


def try_mutant(trial, answers, lines, before):
    """What became of it, a note, and what to keep: who killed it, or who was asked."""
    asked = {name: stamp for name, stamp in before.get("asked", {}).items()
             if name in answers and answers[name]["program"] == stamp}
    spent, left_out, asked_now = 0.0, 0, {}
    for name, cases in rounds(answers, trial.file, lines, tuple(before.get("killer", ()))):
        if name in asked:
            continue
        some = []
        for case in cases:
            if spent + case[1] <= SECONDS:
                spent += case[1]
                some.append(case)
        left_out += len(cases) - len(some)
        killer = trial.kills(name, some)
        if killer:
            return "killed", f"{name} {killer}", {"killer": [name, killer]}
        asked_now[name] = len(some) == len(cases) and asked_now.get(name, True)
    asked.update({name: answers[name]["program"] for name, all_of in asked_now.items()
                  if all_of})
    if not asked and not asked_now:
        return "not reached", "", {}
    if trial.is_same_code():
        return "equivalent", "the same code", {}
    return "alive", f"{left_out} cases not asked" if left_out else "", {"asked": asked}


def main():
    tree, n, seed = os.path.abspath(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    os.makedirs(f"{tree}/build", exist_ok=True)
    refresh(tree)
    build(tree)
    tests = listed(tree)
    say("# Finding out which cases run which lines")
    answers = survey_all(tree, tests)

    places = sys.argv[4:] or subprocess.run(
        ["git", "ls-files", *(f"{folder}*.c" for folder in FOLDERS)], check=True,
        stdout=subprocess.PIPE, text=True).stdout.split()
    drawn = mutants(tree, places)
    random.Random(seed).shuffle(drawn)
    drawn = iter(drawn)
    known, tally = equivalents(tree), {}
    kept = f"{tree}/build/tried.json"
    tried = json.load(open(kept)) if os.path.exists(kept) else {}
    left = n

    def work(number):
        nonlocal left
        folder = f"{tree}/build/work/{number}"
        while True:
            with lock:
                mutant = next(drawn, None) if left > 0 else None
                if not mutant:
                    return
                left -= 1
            subprocess.run(["rm", "-rf", folder], check=True)
            file, line, _, _, _, what = mutant
            whole = open(f"{tree}/{file}").read()
            text = whole.split("\n")[line - 1].strip()
            lines = lines_like(answers, whole, file, line)
            key = f"{file} | {text} | {what}"
            trial = Trial(tree, folder, mutant, tests)
            note, keep = "", {}
            inside = f"{file}:{name_of_function(whole, line)}"
            if (file, text, what) in known or (inside, text, what) in known:
                became = "equivalent"
            elif not trial.compiles():
                with lock:
                    left += 1
                continue
            elif not lines:
                became = "not reached"
            else:
                became, note, keep = try_mutant(trial, answers, lines, tried.get(key, {}))
            with lock:
                tally[became] = tally.get(became, 0) + 1
                if keep:
                    tried[key] = keep
                with open(f"{kept}.new", "w") as out:
                    json.dump(tried, out)
                os.rename(f"{kept}.new", kept)
            say(f"{became}: {file}:{line}: {what}: {text}" + (f" ({note})" if note else ""))

    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        list(pool.map(work, range(JOBS)))
    say(", ".join(f"{count} {kind}" for kind, count in sorted(tally.items())))
    sys.exit(1 if tally.get("alive") or tally.get("not reached") else 0)


main()
