# The first process of a renderer's Pod: waits for the daemon, gives the Pod's network up, and becomes the program that renders,
# with the daemon's connection as its input and output. Nothing that is rendered gets into the Pod's log, which nodes keep.
#
# Arguments: the port, the SHA-256 of the secret that the daemon says first, and for how many seconds it is waited for.
import ctypes
import hashlib
import hmac
import os
import socket
import sys
import time

NEW_USER, NEW_NETWORK = 0x10000000, 0x40000000
SECRET = 64


def read_secret(connection):
    said = b""
    connection.settimeout(5)
    while len(said) < SECRET:
        part = connection.recv(SECRET - len(said))
        if not part:
            break
        said += part
    return said


def wait_for_daemon(port, expected, seconds):
    if socket.has_dualstack_ipv6():
        listener = socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    else:
        listener = socket.create_server(("", port))
    latest = time.monotonic() + seconds
    while True:
        listener.settimeout(max(0.01, latest - time.monotonic()))
        connection, _ = listener.accept()
        try:
            said = read_secret(connection)
        except OSError:
            said = b""
        if hmac.compare_digest(hashlib.sha256(said).hexdigest(), expected):
            listener.close()
            return connection
        connection.close()


def leave_network():
    user, group = os.getuid(), os.getgid()
    library = ctypes.CDLL(None, use_errno=True)
    if library.unshare(NEW_USER | NEW_NETWORK) != 0:
        sys.exit("the Pod's network cannot be left: " + os.strerror(ctypes.get_errno()))
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open("/proc/self/" + name, "w") as file:
            file.write(text)


connection = wait_for_daemon(int(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
connection.settimeout(None)
for option, value in ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3)):
    connection.setsockopt(socket.IPPROTO_TCP, option, value)
connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
leave_network()
for descriptor in (0, 1):
    os.dup2(connection.fileno(), descriptor)
# What a renderer complains of may quote what it was given.
os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
os.execvp("python3", ["python3", "-m", "scene"])
