"""Which cases of which test programs run which lines of the sources.

Every program of the build has cases.c in it, which records the places of the code that each
case runs.  A place begins a block of code; the table of lines in the program says which lines
a block has.  The answer for a program is kept until the program changes.
"""
import bisect
import hashlib
import json
import os
import re
import struct
import subprocess
import time


def case_records(path):
    """(case, seconds, name, places) for each record that cases.c wrote."""
    data = open(path, "rb").read()
    at = 0
    while at < len(data):
        end = data.index(b"\n", at)
        case, seconds, n, name = data[at:end].decode(errors="replace").split(" ", 3)
        at = end + 1 + 4 * int(n)
        yield case, float(seconds), name, struct.unpack_from(f"<{int(n)}I", data, end + 1)


def block_ends(program):
    """Where the blocks of code begin: the addresses behind the calls that announce them."""
    symbols = subprocess.run(["nm", program], stdout=subprocess.PIPE, text=True).stdout
    target = int(re.search(r"^(\w+) . __sanitizer_cov_trace_pc$", symbols, re.M)[1], 16)
    headers = subprocess.run(["readelf", "-W", "-S", program], stdout=subprocess.PIPE,
                             text=True).stdout
    _, start, offset, size = re.search(
        r" (\.text) +PROGBITS +(\w+) (\w+) (\w+)", headers).groups()
    with open(program, "rb") as file:
        file.seek(int(offset, 16))
        code = file.read(int(size, 16))
    start, found = int(start, 16), []
    at = code.find(b"\xe8")
    while at >= 0 and at + 5 <= len(code):
        after = start + at + 5
        if after + struct.unpack_from("<i", code, at + 1)[0] == target:
            found.append(after)
        at = code.find(b"\xe8", at + 1)
    return found


def path_below(path, folders):
    """The path from one of the folders on, "src/relay/keys.c"; None: it is in none of them.
    Compilers name files by relative or by whole paths."""
    for folder in folders:
        at = f"/{path}".rfind(f"/{folder}")
        if at >= 0:
            return path[at:]
    return None


def line_table(program, folders):
    """Every (address, file, line) of the sources, sorted; the file is None elsewhere."""
    out = subprocess.run(["readelf", "-W", "--debug-dump=decodedline", program],
                         stdout=subprocess.PIPE, text=True, errors="replace").stdout
    table, file = [], None
    for text in out.split("\n"):
        if text.endswith(":") and not text.startswith("Contents"):
            file = path_below(os.path.normpath(text.removeprefix("CU: ")[:-1]), folders)
            continue
        row = re.match(r"\S+ +(\d+|-) +0x(\w+)", text)
        if row:
            table.append((int(row[2], 16), file, int(row[1]) if row[1] != "-" else 0))
    return sorted(table, key=lambda row: row[0])


def lines_of_blocks(program, folders):
    """{address of a block: {(file, line), ...}}"""
    table = line_table(program, folders)
    addresses = [row[0] for row in table]
    begins = block_ends(program)
    blocks = {}
    for i, begin in enumerate(begins):
        end = begins[i + 1] - 5 if i + 1 < len(begins) else begin + 1
        first = max(bisect.bisect_right(addresses, begin - 5) - 1, 0)
        last = bisect.bisect_left(addresses, max(end, begin))
        blocks[begin] = {(file, line) for _, file, line in table[first:last] if file}
    return blocks


def digest(program):
    return hashlib.sha256(open(program, "rb").read()).hexdigest()[:16]


def answer(program, records, folders):
    """The cases, and for each line the bits of those that run it:
    {"cases": [[case, seconds, name, number of places]], "lines": {file: {line: "0x…"}}}"""
    blocks = lines_of_blocks(program, folders)
    cases, lines = [], {}
    for case, seconds, name, places in case_records(records):
        n = len(cases)
        cases.append([case, seconds, name, len(places)])
        ran = set()
        for place in places:
            ran |= blocks.get(place, set())
        for file, line in ran:
            of_file = lines.setdefault(file, {})
            of_file[line] = of_file.get(line, 0) | 1 << n
    return {"cases": cases, "lines": {file: {str(line): hex(bits) for line, bits in of.items()}
                                      for file, of in lines.items()}}


def survey_program(name, command, env, folder, folders, most):
    """The answer for a program, from its last survey if it is still the same program.  None:
    it fails without any change, or takes longer than so many seconds."""
    kept = f"{folder}/{name}.json"
    stamp = digest(command[0])
    if os.path.exists(kept):
        with open(kept) as file:
            known = json.load(file)
        if known["program"] == stamp:
            return known
    records = f"{folder}/{name}.cases"
    if os.path.exists(records):
        os.remove(records)
    began, code = time.monotonic(), 1
    try:
        code = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=most,
                              env=dict(env, WHERRY_CASES_SEEN=records)).returncode
    except subprocess.TimeoutExpired:
        pass
    known = {"program": stamp, "seconds": time.monotonic() - began, "code": code,
             "cases": [], "lines": {}}
    if code == 0:
        known.update(answer(command[0], records, folders))
    if os.path.exists(records):
        os.remove(records)
    with open(f"{kept}.new", "w") as file:
        json.dump(known, file)
    os.rename(f"{kept}.new", kept)
    return known
