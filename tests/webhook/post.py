"""POST one webhook to a receiver, signed as Standard Webhooks or wrongly on purpose.

usage: post.py URL ID BODY [OPTION=VALUE...]     the secret is in HOOK_SECRET

  age=SECONDS         how long ago it was signed; below 0: in the future
  sign-id=ID          the id that is signed, in place of the one that is sent
  sign-body=BODY      the body that is signed, in place of the one that is sent
  header=TEXT         webhook-signature, where {} is the signature
  lacks=HEADER        a header that is not sent
  pad=N               N blanks after the body
  times=N             send it N times at once

Prints the status and the text of each answer, sorted.
"""

import base64
import hmac
import http.client
import os
import sys
import threading
import time
import urllib.parse

url, message_id, body = sys.argv[1:4]
options = dict(argument.split("=", 1) for argument in sys.argv[4:])
body = body.encode() + b" " * int(options.get("pad", 0))
timestamp = str(int(time.time()) - int(options.get("age", 0)))
key = base64.b64decode(os.environ["HOOK_SECRET"].removeprefix("whsec_"))
signed = (options.get("sign-id", message_id) + "." + timestamp + ".").encode()
signed += options["sign-body"].encode() if "sign-body" in options else body
signature = "v1," + base64.b64encode(hmac.digest(key, signed, "sha256")).decode()
headers = {
    "content-type": "application/json",
    "webhook-id": message_id,
    "webhook-timestamp": timestamp,
    "webhook-signature": options.get("header", "{}").replace("{}", signature),
}
headers.pop(options.get("lacks"), None)
answers = []
start = threading.Barrier(int(options.get("times", 1)))


def post():
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc, timeout=60)
    start.wait()
    try:
        connection.request("POST", "/", body, headers)
        answer = connection.getresponse()
        answers.append(f"{answer.status} {answer.read().decode().strip()}")
    except OSError as error:
        answers.append(f"no answer: {error}")


threads = [threading.Thread(target=post) for _ in range(start.parties)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("\n".join(sorted(answers)))
