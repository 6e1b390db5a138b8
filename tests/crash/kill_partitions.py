"""As kill_postgres.py, with three relays that share the outbox by partitions, and come and go; by its
seed a bout has a server that is killed, or only connections that end.
"""

import sys
import time

import judge
import kill
import kill_postgres
import postgres
import tap

RELAYS = 3


class Shop(postgres.Shop):
    LEADER = postgres.Shop.LEADER + " AND mask <> 0"  # it has partitions

    def make(self, path):
        super().make(path)
        self.wherry("create", self.url, "--partitions", check=True)


class Bout(kill_postgres.Bout):
    server_killed = False

    def end_one(self):
        """It gives its partitions back, while the others go on."""
        self.shop.wait_ready()
        relay = self.rng.choice(self.relays)
        relay.end()
        self.extra["relays ended"] += 1
        if self.rng.random() < 0.5:
            time.sleep(self.rng.random())
        relay.start()
        return 1

    def kinds(self):
        kinds = [self.kill_one] * 6 + [self.stop_one] + [self.stop_leader] * 2 + [self.kill_heir]
        kinds += [self.end_one] * 4 + [self.end_backend] * 2 + [self.operate] * 2
        if self.server_killed:
            kinds += [self.kill_server] * 3 + [self.kill_backend]
        return kinds

    def tell(self, last_s):
        """What is acknowledged need not be on disk: a server that is killed forgets it."""
        self.extra["relays that found no server"] = sum(v.unlucky for v in self.relays)
        bound = kill.Bout.tell(self, last_s) + self.cuts * self.per_stop()
        return float("inf") if self.server_killed else bound

    def per_stop(self):
        return RELAYS * self.shop.window


def run(folder, seed, rounds, tell_round):
    settings = [f"relay.sweep={['1s', '1h'][seed // 2 % 2]}", "relay.idle_interval=300ms"]
    try:
        shop = Shop(folder, seed, f"file:{folder}/out", settings=settings)
    except postgres.NoServer:
        tap.skip("relays that share lose nothing", "no PostgreSQL server is installed")
        return
    killed = seed % 2 == 1
    tap.tell(f"server killed: {killed}, db.synchronous=full: {shop.sync}")
    try:
        bout = Bout(shop, ["relay"] * RELAYS + ["writer"] * 2)
        bout.server_killed = killed
        kill.play(bout, judge.read_file, rounds, tell_round)
    finally:
        shop.server.close()


if __name__ == "__main__":
    sys.exit(tap.bouts("kill-partitions", 12, 60 if tap.rounds(12) > 12 else 12, run))
