"""Write messages from any language: a plain INSERT in the application's own transaction.

usage: plain_sql.py DATABASE     made before by: wherry create sqlite:DATABASE
"""

import json
import sqlite3
import sys

shop = sqlite3.connect(sys.argv[1], timeout=5, isolation_level=None)
shop.execute("CREATE TABLE IF NOT EXISTS orders(id INTEGER PRIMARY KEY, state TEXT)")


def pay(order):
    """The order and its message: both are there, or neither."""
    shop.execute("BEGIN IMMEDIATE")
    try:
        shop.execute("INSERT OR REPLACE INTO orders VALUES (?, 'paid')", (order,))
        shop.execute(
            "INSERT INTO outbox(topic, partition_key, payload) VALUES (?, ?, ?)",
            ("orders", str(order), json.dumps({"order": order, "state": "paid"})),
        )
        if order == 13:
            raise ValueError("order 13: the card was refused")
    except ValueError as why:
        shop.execute("ROLLBACK")
        print(f"rolled back: {why}")
    else:
        shop.execute("COMMIT")
        print(f"paid: order {order}")


for number in (12, 13, 14):
    pay(number)
shop.close()
