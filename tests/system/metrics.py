"""Whether /metrics, on standard input, keeps to Prometheus' text format, and what they say.

    metrics.py [PYTHON]

PYTHON is an expression that has to hold; in it v("NAME", LABEL=VALUE, …) is the value of the
one line that has these labels, None if there is none, and all_of("NAME") a list of pairs:
labels, value.
"""

import re
import sys

SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(?:,|$)')
ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


def labels_of(text):
    found, at = {}, 0
    while at < len(text):
        m = LABEL.match(text, at)
        assert m, f"labels: {text}"
        assert m[1] not in found, f"{m[1]} twice: {text}"
        found[m[1]] = re.sub(r"\\.", lambda e: ESCAPES[e[0]], m[2])
        at = m.end()
    return found


def read(text):
    """Families by name: kind and samples, each a name, labels and a value."""
    assert text.endswith("\n"), "the last line does not end"
    families, helped, now = {}, set(), None
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name = line.split(" ", 3)[2]
            assert name not in helped, f"HELP twice: {name}"
            assert line.split(" ", 3)[3], f"HELP is empty: {name}"
            helped.add(name)
        elif line.startswith("# TYPE "):
            _, _, now, kind = line.split(" ")
            assert now not in families, f"TYPE twice: {now}"
            assert now in helped, f"no HELP before TYPE: {now}"
            assert (kind == "counter") == now.endswith("_total"), f"{kind} {now}"
            families[now] = (kind, [])
        else:
            m = SAMPLE.fullmatch(line)
            assert m, f"no sample: {line}"
            base = m[1]
            if families[now][0] == "histogram":
                base = re.sub(r"_(bucket|sum|count)$", "", base)
            assert base == now, f"{m[1]} stands among {now}"
            families[now][1].append((m[1], labels_of(m[2] or ""), float(m[3])))
    for name, (kind, samples) in families.items():
        keys = [(n, tuple(sorted(labels.items()))) for n, labels, _ in samples]
        assert len(keys) == len(set(keys)), f"the same twice: {name}"
        if kind == "counter":
            assert all(value >= 0 for _, _, value in samples), name
        if kind == "histogram":
            check_histogram(name, samples)
    return families


def check_histogram(name, samples):
    counts = {l["relay"]: v for n, l, v in samples if n == name + "_count"}
    sums = {l["relay"]: v for n, l, v in samples if n == name + "_sum"}
    assert sums.keys() == counts.keys(), f"{name}: sums and counts"
    for relay, count in counts.items():
        buckets = [(float(l["le"]), v) for n, l, v in samples
                   if n == name + "_bucket" and l["relay"] == relay]
        bounds, values = zip(*buckets)
        assert list(bounds) == sorted(set(bounds)), f"{name}: bounds"
        assert list(values) == sorted(values), f"{name}: not cumulative"
        assert bounds[-1] == float("inf") and values[-1] == count, f"{name}: +Inf is not count"
        assert sums[relay] >= 0 and (count or not sums[relay]), f"{name}: sum"


def main():
    families = read(sys.stdin.read())
    samples = [s for _, found in families.values() for s in found]

    def all_of(name):
        return [(labels, value) for n, labels, value in samples if n == name]

    def v(name, **labels):
        found = [value for l, value in all_of(name) if labels.items() <= l.items()]
        assert len(found) < 2, f"{name} {labels}: {len(found)} lines"
        return found[0] if found else None

    if len(sys.argv) > 1:
        names = {"v": v, "all_of": all_of, "families": families}
        assert eval("(" + sys.argv[1] + ")", names), "does not hold: " + sys.argv[1]


if __name__ == "__main__":
    main()
