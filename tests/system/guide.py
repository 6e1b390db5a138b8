#!/usr/bin/env python3
"""The fenced blocks of a page of the guide, for guide.sh.

    guide.py script PAGE SQL [SQLITE]   a script of its sh, sql, python and yaml blocks; SQL runs
                               standard input, SQLITE what stands under a heading "SQLite"
    guide.py texts PAGE        the lines of its text blocks
    guide.py programs PAGE FOLDER   c blocks that stand in no file of that folder
    guide.py others PAGE       the kinds of its other blocks, and the commands in console blocks
"""
import os
import sys


def blocks(page):
    kind, heading, lines = None, "", []
    for number, line in enumerate(open(page, encoding="utf-8"), 1):
        line = line.rstrip("\n")
        if kind is None and line.startswith("#"):
            heading = line
        if kind is None and line.startswith("```"):
            kind, lines, begin = line[3:], [], number
        elif kind is not None and line == "```":
            yield kind, begin, lines, heading
            kind = None
        elif kind is not None:
            lines.append(line)


def script(page, sql, sqlite):
    print("set -euo pipefail")
    for kind, number, lines, heading in blocks(page):
        if kind == "sh":
            print(f"echo '# line {number}' >&2")
            print("\n".join(lines))
        elif kind in ("sql", "python", "yaml"):
            print(f"echo '# line {number}' >&2")
            command = {"sql": sqlite if sqlite and "SQLite" in heading else sql,
                       "python": "python3 -", "yaml": "write_yaml"}[kind]
            # psql ends some lines of a table in blanks; a page does not.
            print(f"{command} <<'END' | sed 's/ *$//'", *lines, "END", sep="\n")


def programs(page, folder):
    sources = [open(os.path.join(folder, name), encoding="utf-8").read()
               for name in sorted(os.listdir(folder)) if name.endswith(".c")]
    for kind, number, lines, _ in blocks(page):
        if kind == "c" and not any("\n".join(lines) in source for source in sources):
            print(f"{page}:{number}: in no example")


def main():
    what, page = sys.argv[1:3]
    if what == "script":
        script(page, sys.argv[3], "".join(sys.argv[4:]))
    elif what == "texts":
        for kind, _, lines, _ in blocks(page):
            if kind == "text":
                print("\n".join(lines))
    elif what == "programs":
        programs(page, sys.argv[3])
    else:
        for kind, number, lines, _ in blocks(page):
            if kind == "console":
                print("\n".join(lines))
            elif kind not in ("sh", "sql", "python", "yaml", "conf", "text", "c"):
                print(f"{page}:{number}: a block of kind '{kind}'")


main()
