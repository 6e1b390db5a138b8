"""As kill.py, on the database that WHERRY_TEST_MSSQL names; by its seed a bout has relays that share the
outbox by partitions, or one that leads.  A kill waits until a message was delivered since the
one before, as a relay needs a few seconds to begin where the server parses each statement in each session.
"""

import os
import sys

import judge
import kill
import mssql
import tap
import victims

RELAYS = {"partitions": 3, "leading": 2}
PATIENCE = 90  # seconds
LEASE_S = 5
WRITERS = 2


KEY = """CASE WHEN DATALENGTH(o.partition_key) > 0 THEN HASHBYTES('SHA2_256', o.partition_key)
  WHEN DATALENGTH(o.aggregate_type) > 0 OR DATALENGTH(o.aggregate_id) > 0
  THEN HASHBYTES('SHA2_256', STUFF(STUFF(STUFF(N':.', 2, 0, o.aggregate_id), 2, 0, o.aggregate_type), 1, 0,
                                   REPLICATE(N'1', DATALENGTH(o.aggregate_type)))) END"""
BIT = f"""(SELECT CASE b.n WHEN 63 THEN CAST(-9223372036854775808 AS BIGINT) ELSE POWER(CAST(2 AS BIGINT), b.n % 63) END
  FROM (SELECT COALESCE(CAST(SUBSTRING({KEY}, 1, 1) AS BIGINT), o.id) & 63 AS n) AS b)"""


class Shop(victims.Shop):
    DRAIN_S = 300  # suspects are tried one at a time
    OF_POSITION = f"(p.mask = -1 OR p.mask & {BIT} <> 0)"
    UNCOVERED = "CONVERT(BIGINT, o.rv) > p.high"
    LEADER = "SELECT owner FROM wherry_lease WHERE expires_at > SYSUTCDATETIME() AND mask <> 0"

    def __init__(self, folder, seed, how):
        self.how = how
        super().__init__(folder, seed, f"file:{folder}/out", 100, lease_s=LEASE_S)

    def make(self, path):
        self.url = self.path = mssql.URL
        self.db = mssql.Database()
        self.db.clear()
        self.wherry("create", self.url, *["--partitions"] * (self.how == "partitions"), check=True)
        self.db.execute("CREATE TABLE ledger(id VARCHAR(60) PRIMARY KEY, k VARCHAR(60) NOT NULL, n BIGINT "
                        "NOT NULL)")  # fmt: skip
        self.db.execute("CREATE TABLE counter(k VARCHAR(60) PRIMARY KEY, n BIGINT NOT NULL)")
        for kind in "key", "aggregate":
            for n in range(6):
                self.db.execute(f"INSERT INTO counter VALUES ('{kind}:{n}', 0)")

    def integrity(self):
        return "ok"  # a log has no columns that could differ

    def writer(self, letter, *program):
        return [*program, f"{letter}{next(self.names)}", str(self.rng.randrange(1 << 30)), self.pace_ms,
                self.fill]  # fmt: skip

    def in_python(self):
        program = os.path.join(os.path.dirname(__file__), "mssql_writer.py")
        return self.writer("w", sys.executable, "-B", program)

    def is_busy(self):
        return self.db.execute("SELECT count(*) FROM ledger").fetchone()[0] > 50

    def count_delivered(self):
        if not os.path.exists(self.out):
            return 0
        with open(self.out, "rb") as lines:
            return sum(1 for _ in lines)

    def close(self):
        self.db.clear()
        super().close()

    def relay_arguments(self, sync):
        return [*super().relay_arguments(sync), *self.set(["relay.purge_every=2s", "relay.sweep=5s"])]


class Bout(kill.Bout):
    BUSY_S = PATIENCE
    SOON_S = 3  # an operator's command works by then
    n_delivered = 0

    def await_work(self):
        shop = self.shop
        tap.wait_until(PATIENCE, lambda: shop.count_delivered() > self.n_delivered)
        self.n_delivered = shop.count_delivered()

    def end_one(self):
        """It gives its partitions back, while the others go on."""
        relay = self.rng.choice(self.relays)
        relay.end()
        self.extra["relays ended"] += 1
        relay.start()
        return 1

    def kinds(self):
        kinds = [self.kill_one] * 6 + [self.stop_one] * 2 + [self.stop_leader, self.kill_heir]
        kinds += [self.end_one] * 2 * (self.shop.how == "partitions")
        return kinds + [self.operate] * 2

    def per_stop(self):
        return len(self.relays) * self.shop.window


def run(folder, seed, rounds, tell_round):
    how = list(RELAYS)[seed % len(RELAYS)]
    try:
        shop = Shop(folder, seed, how)
    except mssql.NoServer as reason:
        tap.skip("relays on SQL Server that are killed", str(reason))
        return
    tap.tell(how)
    bout = Bout(shop, ["relay"] * RELAYS[how] + ["python"] * WRITERS)
    kill.play(bout, judge.read_file, rounds, tell_round)


if __name__ == "__main__":
    sys.exit(tap.bouts("kill-mssql", 12, 20 if tap.rounds(12) > 12 else 3, run))
