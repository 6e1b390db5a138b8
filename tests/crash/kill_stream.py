"""As kill_postgres.py, by relays of the engine stream; by its seed a bout has relays that mark
rows, or that leave them as they are, where the log alone says what is delivered.
"""

import sys

import judge
import kill
import kill_postgres
import postgres
import tap

MESSAGES = 1000  # that are written in a second, at most


class Shop(postgres.Shop):
    SERVER = ["wal_level=logical", "wal_sender_timeout=10s", "checkpoint_timeout=30s"]
    keep = False

    def make(self, path):
        if self.keep:
            self.on_done = "keep"
        super().make(path)

    def integrity(self):
        """There is one slot; where it says what is delivered, all is, and nothing is dead."""
        behind = self.db.execute(
            "SELECT pg_current_wal_lsn() - confirmed_flush_lsn AS n FROM pg_replication_slots"
        )
        if len(behind) != 1 or self.keep and behind[0][0] > 1 << 20:
            return f"slots, and how far they are behind: {behind}"
        if self.keep and self.db.execute("SELECT message_id FROM wherry_dead"):
            return "messages are dead"
        return super().integrity()


class Keeper(Shop):
    keep = True


class Bout(kill_postgres.Bout):
    def end_sender(self):
        """The connection that the log comes by."""
        self.shop.db.run("SELECT pg_terminate_backend(pid) FROM pg_stat_replication")
        self.extra["streams cut"] += 1
        self.cuts += 1
        return 1

    def write_much(self):
        """A transaction that takes the window many times."""
        first = self.extra["large transactions"] * 10000
        self.shop.db.run(
            f"WITH m AS (INSERT INTO outbox(topic, partition_key, payload) "
            f"SELECT 't', 'large', json_build_object('k', 'large', 'n', i) "
            f"FROM generate_series({first} + 1, {first} + 10000) AS i "
            f"RETURNING message_id, payload) INSERT INTO ledger "
            f"SELECT message_id, 'large', (payload->>'n')::bigint "
            f"FROM m"
        )
        self.extra["large transactions"] += 1
        return 1

    def kinds(self):
        return [*super().kinds(), *[self.end_sender] * 4, self.write_much]

    def tell(self, last_s):
        """Rows that are marked say what is delivered, and marks may be lost with the server;
        else that is written once a second."""
        super().tell(last_s)
        if not self.shop.keep:
            return float("inf")
        ends = self.cuts + sum(v.kills for v in self.relays) + sum(v.stops for v in self.victims)
        large = 10000 * self.extra["large transactions"]
        return (ends + 1) * (kill_postgres.RELAYS * self.shop.window + MESSAGES + large)


def run(folder, seed, rounds, tell_round):
    settings = ["relay.engine=stream", f"relay.sweep={['1s', '1h'][seed // 2 % 2]}"]
    make = Keeper if seed % 2 else Shop
    try:
        shop = make(folder, seed, f"file:{folder}/out", settings=settings)
    except postgres.NoServer:
        tap.skip("a stream that is cut loses nothing", "no PostgreSQL server is installed")
        return
    tap.tell(f"on_done: {shop.on_done}, db.synchronous=full: {shop.sync}")
    try:
        bout = Bout(shop, ["relay"] * kill_postgres.RELAYS + ["writer"] * kill_postgres.WRITERS)
        bout.DONE = 0 if shop.keep else 2
        kill.play(bout, judge.read_file, rounds, tell_round)
    finally:
        shop.server.close()


if __name__ == "__main__":
    sys.exit(tap.bouts("kill-stream", 20, 60 if tap.rounds(20) > 20 else 10, run))
