"""The other end of examples/unix_socket.c: prints each message, and answers it.

usage: unix_socket.py SOCKET
"""
import socket
import sys

listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
print("ready", flush=True)
while True:
    connection, _ = listener.accept()
    with connection, connection.makefile("rwb") as line:
        for head in line:  # "ID LENGTH"
            number, length = head.split()
            body = line.read(int(length))
            print(number.decode(), body.decode(), flush=True)
            line.write(number + (b" ok\n" if body else b" reject it is empty\n"))
            line.flush()
