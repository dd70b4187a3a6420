"""The smallest engine that can be loaded, for tests that start hundreds: up in some 15 ms.

`tiny.py PORT [child] [die=SECONDS]`: with `child` it leaves a process in a session of its own running.
"""

import os
import socket
import sys
import time

port, habits = int(sys.argv[1]), sys.argv[2:]
print("tiny engine on", port, flush=True)
if "child" in habits and os.fork() == 0:
    os.setsid()
    time.sleep(600)
for habit in habits:
    if habit.startswith("die="):
        time.sleep(float(habit[4:]))
        os._exit(9)
with socket.create_server(("127.0.0.1", port), backlog=64) as listener:
    while True:
        connection, _ = listener.accept()
        connection.recv(65_536)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
        connection.close()
