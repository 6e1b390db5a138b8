"""PostgreSQL undoes a transaction at each write of each command, and at its commits: a deadlock or a serialization failure.

usage: postgres_undone.py WHERRY SERVER'S-FOLDER
Prints TAP.  Triggers on all tables count the writes, with a sequence, and fail at one of them: at the statement, or at the
commit.  A command must do what it does without that, and say the same.  WHERRY_ONLY names a command.
"""

import os
import re
import subprocess
import sys

WHERRY, SERVER = sys.argv[1:]
LINES = b'{"k":"a","id":"x"}\n{"k":"b","id":"y"}\n{"k":"a","id":"z"}\n'
OPERATIONS = {
    "create": ["create", "URL#other"],
    "create --kind queue": ["create", "--kind", "queue", "URL#tasks"],
    "create a subscription": ["create", "URL#outbox/more", "--topics", "t"],
    "enqueue": ["enqueue", "URL", '{"n":1}', "--topic", "t", "--id", "one"],
    "retry": ["retry", "URL", "--all"],
    "discard": ["discard", "URL", "1", "--yes"],
    "purge": ["purge", "URL", "--older-than", "0s", "--yes"],
    "pause": ["pause", "URL"],
    "seek": ["seek", "URL#outbox/audit", "now"],
    "relay": ["relay", "URL", "null:", "--until-empty", "--timeout", "30s"],
    "relay that fails": ["relay", "URL", "exec:exit 65", "--until-empty", "--timeout", "30s"],
    "relay to a queue": ["relay", "URL", "URL#jobs", "--until-empty", "--timeout", "30s"],
    "relay a queue": ["relay", "URL#jobs", "null:", "--until-empty", "--timeout", "30s"],
    "relay delayed": ["relay", "URL#later/mail", "null:", "--until-empty", "--timeout", "30s"],
    "send": ["send", "URL#jobs", '{"n":1}'],
    "receive": ["receive", "URL#jobs"],
    "retry a queue's": ["retry", "URL#dead", "--all"],
    "discard a queue's": ["discard", "URL#jobs", "1", "--yes"],
    "offer": ["offer", "URL#later/mail", "3", "--key", "c"],
    "poll": ["poll", "URL#later/mail"],
    "adopt": ["adopt", "URL#events", "--yes"],
    "drop": ["drop", "URL#jobs", "--yes"],
    "drop a subscription": ["drop", "URL#outbox/audit", "--yes"],
}
TRIGGERS = """
CREATE SEQUENCE fault_n;
CREATE TABLE fault(at bigint, code text);
INSERT INTO fault VALUES (0, '40P01');
CREATE FUNCTION fault() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$ BEGIN
  IF nextval('fault_n') = (SELECT at FROM fault) THEN
    RAISE EXCEPTION 'the test undoes this' USING ERRCODE = (SELECT code FROM fault);
  END IF;
  RETURN NULL;
END $$;
DO $$ DECLARE t text; BEGIN
  FOR t IN SELECT oid::regclass FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace
           AND relname <> 'fault' LOOP
    EXECUTE format('CREATE TRIGGER fault_now AFTER INSERT OR UPDATE OR DELETE ON %s FOR EACH STATEMENT EXECUTE FUNCTION fault()', t);
    EXECUTE format('CREATE CONSTRAINT TRIGGER fault_late AFTER INSERT OR UPDATE OR DELETE ON %s DEFERRABLE INITIALLY DEFERRED '
                   'FOR EACH ROW EXECUTE FUNCTION fault()', t);
  END LOOP;
END $$;
"""
# Each table with its number of rows, and its states and attempts.
DIGEST = """
SELECT relname, (xpath('//x/text()', query_to_xml(format('SELECT count(*) || %s AS x FROM %s', coalesce((
    SELECT string_agg(format(''' %s '' || coalesce(string_agg(%1$I::text, '','' ORDER BY %1$I), '''')', attname), ' || ')
    FROM pg_attribute WHERE attrelid = c.oid AND attname IN ('state', 'attempts', 'topic', 'pKey', 'subscription')), ''''''),
  oid::regclass), false, false, '')))[1]
FROM pg_class AS c WHERE relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace AND relname <> 'fault' ORDER BY 1
"""


def sql(text, database="postgres"):
    return subprocess.run(["psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", SERVER, "-U", "wherry", database],
                          input=text, text=True, check=True, capture_output=True).stdout


def wherry(database, words, data=b""):
    url = f"postgres://wherry@/{database}?host={SERVER}"
    return subprocess.run([WHERRY] + [w.replace("URL", url) for w in words], input=data, capture_output=True, timeout=120,
                          check=False)


def make_base():
    sql("CREATE DATABASE base")

    def must(*words, data=b""):
        done = wherry("base", words, data)
        if done.returncode != 0:
            sys.exit(f"{words}: {done.stderr.decode()}")

    for words in (["create", "URL"], ["create", "URL#outbox/audit"], ["create", "--kind", "queue", "URL#jobs"],
                  ["create", "--kind", "queue", "URL#dead"], ["create", "--kind", "delayed", "URL#later"], ["create", "--kind", "inbox", "URL"]):
        must(*words)
    lines = ["enqueue", "URL", "--lines", "--topic", "t", "--key", "/k", "--id", "/id"]
    must(*lines, data=LINES)
    wherry("base", ["relay", "URL", "exec:exit 65", "--until-empty", "--timeout", "30s"])  # all are dead
    must(*lines, data=LINES.replace(b"x", b"u").replace(b"y", b"v").replace(b"z", b"w"))
    for body in ("1", "2"):
        must("send", "URL#jobs", body)
        must("offer", "URL#later/mail", body, "--key", "key" + body)
        must("send", "URL#dead", body)
    wherry("base", ["relay", "URL#dead", "exec:exit 65", "--until-empty", "--timeout", "30s"])
    sql("CREATE TABLE events(id bigserial PRIMARY KEY, topic text, payload text);"
        "INSERT INTO events(topic, payload) VALUES ('t', '1'), ('t', '2');" + TRIGGERS, "base")


def run(words, at, code):
    """What it said and did, and how many writes it made."""
    sql("DROP DATABASE IF EXISTS tried")
    sql("CREATE DATABASE tried TEMPLATE base")
    sql(f"UPDATE fault SET at = {at}, code = '{code}'", "tried")
    done = wherry("tried", words)
    count = int(sql("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM fault_n", "tried"))
    said = re.sub(r"[0-9a-f-]{36}|message \d+|[0-9]+([.][0-9]+)? ?(ms|s)\b|\d\d:\d\d\S*", "~", done.stdout.decode())
    code = 0 if done.returncode == 3 else done.returncode  # messages died, as they should
    return (code, said, sql(DIGEST, "tried")), count, done.stderr.decode()


def main():
    make_base()
    only = os.environ.get("WHERRY_ONLY")
    names = [n for n in OPERATIONS if only in (None, n)]
    failed = False
    for i, name in enumerate(names):
        wanted, count, said = run(OPERATIONS[name], 0, "40P01")
        wrong = [] if wanted[0] == 0 else [f"alone: exit status {wanted[0]}: {said}"]
        for at in range(1, count + 1):
            code = ("40P01", "40001")[at % 2]
            found, n, said = run(OPERATIONS[name], at, code)
            if found != wanted:
                wrong.append(f"{code} at write {at} of {count}: {n} writes, {found} and not {wanted}: {said}")
        print(f"{'not ok' if wrong or not count else 'ok'} {i + 1} - {name} does the same if a transaction is undone at each of {count} writes",
              flush=True)
        for text in wrong[:10]:
            print("# " + text.replace("\n", "\n# "))
        failed |= bool(wrong or not count)
    print(f"1..{len(names)}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
