"""Commit an order and its event together, from Python with psycopg.

usage: order.py postgres://USER@HOST/DATABASE
"""

import json
import sys

import psycopg


class Refused(Exception):
    """The shop does not accept the order."""


def place_order(db, customer, cents):
    """Insert an order and its event: both are committed, or neither."""
    with db.transaction():
        (order,) = db.execute(
            "INSERT INTO orders(customer, cents) VALUES (%s, %s) RETURNING id",
            (customer, cents),
        ).fetchone()
        event = {"order": order, "customer": customer, "cents": cents}
        db.execute(
            "SELECT wherry_enqueue('orders', %s, key => %s)",
            (json.dumps(event), order),
        )
        if cents > 100_000:
            raise Refused(f"order {order} is over the credit limit")
    return order


def main():
    with psycopg.connect(sys.argv[1], autocommit=True) as db:
        for cents in (4_200, 420_000):
            try:
                order = place_order(db, 'Zoë "Zed" O\'Hara \\ 漢字', cents)
                print(f"committed: order {order}")
            except Refused as why:
                print(f"rolled back: {why}")


main()
