#!/usr/bin/env python3
"""Make the keys and JWTs of a NATS server with an operator, as nsc makes them, by openssl.

nats_jwt.py FOLDER writes there resolver.conf, to include in the server's configuration, and
shop.creds, wrong.creds (of another account, which the server does not know) and
narrow.creds (which may publish to narrow.> alone).
"""
import base64
import hashlib
import json
import subprocess
import sys
import time

PREFIXES = {"O": 14 << 3, "A": 0, "U": 20 << 3}
SEED = 18 << 3
folder = sys.argv[1]


def crc16(data):
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021) & 0xFFFF if crc & 0x8000 else crc << 1
    return crc


def base32(data):
    return base64.b32encode(data + crc16(data).to_bytes(2, "little")).decode().rstrip("=")


def base64url(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def openssl(*words, **options):
    return subprocess.run(["openssl", *words], stdout=subprocess.PIPE, check=True, **options).stdout


class Key:
    def __init__(self, kind):
        prefix = PREFIXES[kind]
        self.pem = f"{folder}/{kind}.pem"
        openssl("genpkey", "-algorithm", "ed25519", "-out", self.pem)
        with open(self.pem) as f:
            self.text = f.read()
        raw = openssl("pkey", "-in", self.pem, "-outform", "DER")[-32:]
        public = openssl("pkey", "-in", self.pem, "-pubout", "-outform", "DER")[-32:]
        self.seed = base32(bytes([SEED | prefix >> 5, (prefix & 31) << 3]) + raw)
        self.public = base32(bytes([prefix]) + public)

    def sign(self, data):
        with open(self.pem, "w") as f:
            f.write(self.text)
        with open(f"{folder}/data", "wb") as f:
            f.write(data)
        return openssl("pkeyutl", "-sign", "-rawin", "-inkey", self.pem, "-in", f"{folder}/data")

    def issue(self, name, subject, nats):
        """A JWT about subject."""
        claims = {"iat": int(time.time()), "iss": self.public, "name": name, "sub": subject.public,
                  "nats": nats}
        claims["jti"] = base64.b32encode(hashlib.sha256(json.dumps(claims).encode()).digest()).decode().rstrip("=")
        parts = [json.dumps(part, separators=(",", ":")).encode()
                 for part in ({"typ": "JWT", "alg": "ed25519-nkey"}, claims)]
        text = ".".join(base64url(part) for part in parts)
        return text + "." + base64url(self.sign(text.encode()))


ANY = {"subs": -1, "data": -1, "payload": -1}


def account(signer, key, name):
    limits = {**ANY, "imports": -1, "exports": -1, "wildcards": True, "conn": -1, "leaf": -1,
              "mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}
    return signer.issue(name, key, {"type": "account", "version": 2, "limits": limits})


def credentials(file, of, may_publish=None):
    key = Key("U")
    rights = {"pub": {"allow": may_publish} if may_publish else {}, "sub": {}}
    jwt = of.issue(file, key, {"type": "user", "version": 2, **ANY, **rights})
    with open(f"{folder}/{file}.creds", "w") as f:
        f.write(f"""-----BEGIN NATS USER JWT-----
{jwt}
------END NATS USER JWT------

************************* IMPORTANT *************************
NKEY Seed printed below can be used to sign and prove identity.

-----BEGIN USER NKEY SEED-----
{key.seed}
------END USER NKEY SEED------
""")


operator, shop, unknown, system = Key("O"), Key("A"), Key("A"), Key("A")
jwt = operator.issue("wherry", operator, {"type": "operator", "version": 2})
with open(f"{folder}/resolver.conf", "w") as f:
    f.write(f"""operator: "{jwt}"
system_account: {system.public}
resolver: MEMORY
resolver_preload: {{
  {shop.public}: "{account(operator, shop, 'shop')}"
  {system.public}: "{operator.issue('SYS', system, {'type': 'account', 'version': 2,
                     'limits': {**ANY, 'imports': -1, 'exports': -1, 'wildcards': True, 'conn': -1, 'leaf': -1}})}"
}}
""")
credentials("shop", shop)
credentials("wrong", unknown)
credentials("narrow", shop, ["narrow.>"])
