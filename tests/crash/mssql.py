"""The database on SQL Server that WHERRY_TEST_MSSQL names, for crash runs.

Runs drop every table, trigger and procedure that is in it.
"""

import os
import re
import sys
import time
import urllib.parse

import tap

URL = os.environ.get("WHERRY_TEST_MSSQL")
SCRIPTS = os.path.join(tap.SOURCE, "tests", "mssql")


class NoServer(Exception):
    """None is named, or this Python has no driver for it."""


def connect(url=None):
    """A connection that commits each statement."""
    try:
        import pyodbc
    except ImportError as error:
        raise NoServer("python3-pyodbc is not installed") from error
    url = urllib.parse.urlsplit(url or URL)
    options = dict(urllib.parse.parse_qsl(url.query))
    drivers = [d for d in ("ODBC Driver 18 for SQL Server", "ODBC Driver 17 for SQL Server", "FreeTDS")
               if d in pyodbc.drivers()]  # fmt: skip
    driver = options.get("driver") or (drivers or ["FreeTDS"])[0]
    parts = {
        "Driver": driver, "Database": url.path.lstrip("/"), "UID": urllib.parse.unquote(url.username or ""),
        "PWD": urllib.parse.unquote(url.password or ""),
    }  # fmt: skip
    if "tds" in driver.lower():
        parts.update({"Server": url.hostname, "Port": url.port or 1433, "TDS_Version": "7.4",
                      "ClientCharset": "UTF-8"})  # fmt: skip
        if options.get("encrypt") == "no":
            parts["Encryption"] = "off"
    else:
        parts.update({"Server": f"{url.hostname},{url.port or 1433}",
                      "Encrypt": options.get("encrypt", "yes"),
                      "TrustServerCertificate": options.get("trust_server_certificate", "no")})  # fmt: skip
    braced = "Server", "Database", "UID", "PWD", "Driver"
    text = ";".join(f"{key}={{{value}}}" if key in braced else f"{key}={value}"
                    for key, value in parts.items())  # fmt: skip
    return pyodbc.connect(text, autocommit=True)


class Answer(list):
    def fetchone(self):
        return self[0] if self else None


class Database:
    """Runs SQL on one connection, which is made once more when it is lost."""

    def __init__(self):
        if not URL:
            raise NoServer("WHERRY_TEST_MSSQL names no server")
        self.connection = connect()

    def execute(self, sql):
        """The rows of its first statement that has any."""
        for _ in range(20):
            try:
                cursor = self.connection.execute(sql)
                rows = None
                more = True
                while more:
                    if rows is None and cursor.description:
                        rows = Answer(tuple(row) for row in cursor.fetchall())
                    more = cursor.nextset()
                return rows or Answer()
            except Exception as error:
                state = error.args[0] if error.args else ""
                if state not in ("08S01", "08001", "40001", "HY000"):
                    raise
                tap.tell(f"{error}")
            time.sleep(0.5)
            self.connection = connect()
        raise RuntimeError(f"the server does not answer: {sql}")

    def clear(self):
        """An empty database, with the functions of SQL Server that Babelfish lacks."""
        for name in "drop.sql", "babelfish.sql":
            with open(os.path.join(SCRIPTS, name)) as script:
                self.execute(script.read())

    def close(self):
        self.connection.close()


def hide(text):
    """Without the password."""
    return re.sub(r"//([^:/@]*):[^@]*@", r"//\1@", text)


if __name__ == "__main__":
    # A script's SQL; without any, an empty database.
    database = Database()
    if len(sys.argv) < 2:
        database.clear()
    for values in database.execute(sys.argv[1]) if len(sys.argv) > 1 else ():
        print(*("" if v is None else v for v in values), sep="|")
