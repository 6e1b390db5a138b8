"""As kill.py, with four relays that compete; by its seed a bout has file: or exec: as the
destination, which they share, and one of the relays tries failed messages only, or none.
"""

import os
import sys
import time

import kill
import tap

# Notes in a file beside $1 if it runs at once with a command of another message of its key.
# Waits for one of its own message: of such only the shell was killed.  Fails now and then.
DELIVER = """#!/bin/sh
body=$(cat)
key="$WHERRY_KEY.$WHERRY_AGGREGATE_TYPE.$WHERRY_AGGREGATE_ID"
if [ "$key" != .. ]; then
	exec 8>>"$1.lock.$key" 9>>"$1.lock"
	flock 9
	if ! flock -n 8; then
		read -r other <"$1.runs.$key"
		[ "$other" = "$WHERRY_MESSAGE_ID" ] ||
			echo "$key: $other runs, and $WHERRY_MESSAGE_ID" >>"$1.overlaps"
		exec 9>&-
		flock 8
	fi
	echo "$WHERRY_MESSAGE_ID" >"$1.runs.$key"
	exec 9>&-
	[ $(($$ % 3)) -ne 0 ] || sleep 0.03 8>&-
fi
[ $(($$ % 11)) -ne 0 ] || exit 1
printf '%s\\t%s\\n' "$WHERRY_MESSAGE_ID" "$body" >>"$1"
"""
ENGINE = ["relay.engine=competing", "relay.claim_timeout=1s"]
RELAYS = 4


class Bout(kill.Bout):
    """There is no leader: whoever is stopped past its claims must not go on with them."""

    def children(self):
        return [c for v in self.relays for c in kill.children_of(v.process.pid)]

    def stop_past(self):
        self.rng.choice(self.relays).stop(self.shop.lease_s * self.rng.uniform(1.1, 2))
        return 1

    def kill_heir(self):
        """Kill one, and another about when it takes over what the one had claimed."""
        one, heir = self.rng.sample(self.relays, 2)
        one.kill()
        one.start()
        time.sleep(self.shop.lease_s * self.rng.uniform(0.7, 1.3))
        heir.kill()
        heir.start()
        return 2

    def dam_up(self):
        """More is pending than one claim looks at."""
        self.shop.wherry("pause", self.shop.url, check=True)
        time.sleep(self.rng.uniform(0.3, 1))
        self.shop.wherry("resume", self.shop.url, check=True)
        return 1

    def end_one(self):
        """It gives back what it claimed, while the others go on."""
        relay = self.rng.choice(self.relays)
        relay.end()
        relay.start()
        return 1

    def kinds(self):
        kinds = [self.kill_one] * 10 + [self.stop_one] * 2 + [self.stop_past] * 2
        return kinds + [self.kill_heir, self.dam_up, self.end_one, *[self.operate] * 3]

    def per_stop(self):
        """A process that is stopped may hold the lock for longer than all claims last."""
        return RELAYS * self.shop.window


def read_overlaps(path):
    if not os.path.exists(path):
        return []
    with open(path) as lines:
        return lines.read().splitlines()


def run(folder, seed, rounds, tell_round):
    kind = "exec" if seed % 2 else "file"
    some = "failed" if seed // 2 % 2 else "relay"
    tap.tell(f"{kind}: with one that tries failed messages only: {some == 'failed'}")
    shop, read = kill.make_shop(kind, folder, seed, ENGINE, DELIVER)
    shop.pace_ms = shop.rng.choice({"file": ["2", "20"], "exec": ["100", "200"]}[kind])
    relays = ["relay"] * (RELAYS - 1) + [some]
    bout = Bout(shop, [*relays, "c", "python"])
    kill.play(bout, read, rounds, tell_round)
    overlaps = read_overlaps(shop.out + ".overlaps")
    tap.check("two commands never work on one key", not overlaps, *overlaps[:20])


if __name__ == "__main__":
    most = 40 if tap.rounds(10) > 10 else 5  # of each kind one, in a short run
    sys.exit(tap.bouts("kill-competing", 10, most, run))
