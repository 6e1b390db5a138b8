"""As kill.py, on a PostgreSQL server that is killed as well."""

import sys

import judge
import kill
import postgres
import tap

RELAYS = WRITERS = 2


def backends(shop):
    """Server processes of the relays and the writers."""
    rows = shop.db.execute(
        "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' "
        "AND application_name <> 'psql'"
    )
    return [pid for (pid,) in rows]


class Bout(kill.Bout):
    """What may happen to a server, besides."""

    cuts = 0  # of connections

    def kill_server(self):
        self.shop.server.kill()
        self.cuts += 1
        self.extra["servers killed"] += 1
        if self.rng.random() < 0.5:
            self.shop.wait_ready()
        return 1

    def kill_backend(self):
        """The server ends all others, and recovers."""
        pids = backends(self.shop)
        if not pids or not kill.try_kill(self.rng.choice(pids)):
            return self.kill_server()
        self.cuts += 1
        self.extra["backends killed"] += 1
        return 1

    def end_backend(self):
        for pid in backends(self.shop):
            if self.rng.random() < 0.4:
                self.shop.db.run(f"SELECT pg_terminate_backend({pid})")
                self.extra["backends terminated"] += 1
        self.cuts += 1
        return 1

    def stop_leader(self):
        self.shop.wait_ready()
        return super().stop_leader()

    def operate(self):
        self.shop.wait_ready()
        for victim in self.victims:
            victim.revive()
        return super().operate()

    def kinds(self):
        kinds = [self.kill_one] * 6 + [self.stop_one] + [self.stop_leader, self.kill_heir]
        kinds += [self.kill_server] * 4 + [self.kill_backend] * 2 + [self.end_backend] * 3
        return kinds + [self.operate] * 2

    def tell(self, last_s):
        """A position is written without waiting for the disk, so it may be lost with the server."""
        self.extra["relays that found no server"] = sum(v.unlucky for v in self.relays)
        super().tell(last_s)
        return float("inf")

    def per_stop(self):
        return RELAYS * self.shop.window


def run(folder, seed, rounds, tell_round):
    settings = [f"relay.sweep={['1s', '1h'][seed % 2]}"]
    try:
        shop = postgres.Shop(folder, seed, f"file:{folder}/out", settings=settings)
    except postgres.NoServer:
        tap.skip("a server that is killed loses nothing", "no PostgreSQL server is installed")
        return
    tap.tell(f"db.synchronous=full: {shop.sync}")
    try:
        bout = Bout(shop, ["relay"] * RELAYS + ["writer"] * WRITERS)
        kill.play(bout, judge.read_file, rounds, tell_round)
    finally:
        shop.server.close()


if __name__ == "__main__":
    sys.exit(tap.bouts("kill-postgres", 40, 60 if tap.rounds(40) > 40 else 14, run))
