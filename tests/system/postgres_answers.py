"""Run commands of wherry against answers.py: each answer of each run, changed in each way.

usage: postgres_answers.py WHERRY SERVER'S-FOLDER
Prints TAP.  Each answer is changed in some of the ways: in one of 96, in one of 16 with
WHERRY_TEST_DEEP=1, in all with WHERRY_ANSWERS=all.  The first answer, which is the same for every
command, is changed in all ways for one command.  WHERRY_ONLY names a command.  A run may end well or with an
error that says something; it may not crash, hang, or be stopped by a sanitizer.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

WHERRY, SERVER = sys.argv[1:]
HERE = pathlib.Path(__file__).resolve().parent.parent / "postgres"
sys.path.insert(0, str(HERE))
import answers  # noqa: E402

WORKERS = 6
COMMANDS = {
    "enqueue": ["enqueue", "URL", "--lines", "--topic", "t", "--key", "/k", "--id", "/id"],
    "status": ["status", "URL"],
    "list": ["list", "URL", "--state", "pending,done"],
    "show": ["show", "URL", "1"],
    "retry": ["retry", "URL", "--all"],
    "purge": ["purge", "URL", "--older-than", "0s", "--yes"],
    "create": ["create", "URL"],
    "doctor": ["doctor", "URL"],
    "relay": ["relay", "URL", "null:", "--until-empty", "--timeout", "2s"],
}
INPUT = {"enqueue": b'{"k":"a","id":"x"}\n{"k":"b","id":"y"}\n'}
ENV = dict(os.environ, ASAN_OPTIONS="exitcode=99:detect_leaks=0",
           UBSAN_OPTIONS="halt_on_error=1:exitcode=99")


def sql(text):
    subprocess.run(["psql", "-X", "-q", "-h", SERVER, "-U", "wherry", "-c", text, "postgres"],
                   check=True)


def run(folder, name, kind, nth, table):
    url = f"postgres://wherry@/postgres?host={folder}&application_name={kind}.{nth}#{table}"
    command = [WHERRY] + [url if a == "URL" else a for a in COMMANDS[name]]
    try:
        done = subprocess.run(command, input=INPUT.get(name, b""), env=ENV, timeout=60,
                              capture_output=True, check=False)
    except subprocess.TimeoutExpired:
        return f"{kind} of answer {nth}: it hangs"
    said = done.stderr.decode(errors="replace")
    if done.returncode < 0 or done.returncode == 99 or "Sanitizer" in said or \
            "runtime error" in said:
        return f"{kind} of answer {nth}: exit status {done.returncode}: {said[-600:]}"
    if done.returncode not in (0, 3, 4) and not said and not done.stdout:
        return f"{kind} of answer {nth}: exit status {done.returncode}, and nothing said"
    return None


def count(folder, name):
    """Answers of a run in which none is changed."""
    path = pathlib.Path(folder, "counts")
    path.write_text("", encoding="ascii")
    run(folder, name, "none", 0, "outbox0")
    for _ in range(600):  # it is written when the connection has ended
        time.sleep(0.1)
        if path.stat().st_size:
            break
    return max(int(line.split()[1]) for line in path.read_text(encoding="ascii").split("\n")
               if line.startswith("none "))


def work(folder, name, worker, jobs):
    """One after the other: each worker has an outbox of its own."""
    wrong = []
    for kind, nth in jobs[worker::WORKERS]:
        if name.startswith("relay"):
            sql(f"INSERT INTO outbox{worker}(topic, partition_key, payload) "
                "VALUES ('t', 'a', '{}'), ('t', 'b', '{}')")
        wrong.append(run(folder, name, kind, nth, f"outbox{worker}"))
    return [w for w in wrong if w]


def main():
    only = os.environ.get("WHERRY_ONLY")
    apart = 16 if os.environ.get("WHERRY_TEST_DEEP") == "1" else 96
    if os.environ.get("WHERRY_ANSWERS") == "all":
        apart = 1
    with tempfile.TemporaryDirectory(prefix="wherry-answers-") as folder:
        between = subprocess.Popen([sys.executable, str(HERE / "answers.py"), folder,
                                    SERVER + "/.s.PGSQL.5432"],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        between.stdout.readline()
        failed = 0
        for i in range(WORKERS):
            subprocess.run([WHERRY, "create", f"postgres://wherry@/postgres?host={SERVER}#outbox{i}"], check=True, capture_output=True)
        names = [n for n in COMMANDS if only in (None, n)]
        for i, name in enumerate(names):
            jobs = [(kind, nth) for nth in range(1, count(folder, name) + 1)
                    for k, kind in enumerate(answers.KINDS)
                    if (nth == 1 and i == 0) or (7 * k + 5 * nth) % apart == 0]
            with ThreadPoolExecutor(WORKERS) as pool:
                wrong = sum(pool.map(lambda k: work(folder, name, k, jobs), range(WORKERS)), [])
            failed += bool(wrong)
            print(f"{'not ok' if wrong else 'ok'} {i + 1} - {name} survives each of "
                  f"{len(jobs)} wrong answers", flush=True)
            for text in wrong[:20]:
                print("# " + text.replace("\n", "\n# "))
        print(f"1..{len(names)}")
        between.stdin.close()
        between.wait()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
