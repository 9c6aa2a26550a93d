"""Becomes a PostgreSQL on 127.0.0.1:  postgres.py FOLDER PORT

An empty FOLDER is made a database cluster first, which trusts everyone as the user `postgres`. PostgreSQL refuses to
run as root: then it is another user's. What it has committed outlives its being killed, not the machine's (fsync=off).
"""

import glob
import os
import pwd
import shutil
import subprocess
import sys
import time

SETTINGS = """
listen_addresses=127.0.0.1 unix_socket_directories= fsync=off full_page_writes=off shared_buffers=16MB
autovacuum=off jit=off
"""


def main(folder, port):
    if os.getuid() == 0:
        become_other_user(folder)
    if not os.path.exists(os.path.join(folder, "PG_VERSION")):
        made = subprocess.run(
            [program("initdb"), "-D", folder, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync",
             "--no-instructions"],
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        if made.returncode:
            sys.exit(made.returncode)
    # The processes of one that was killed hold its shared memory until they have noticed.
    while any_process_in(folder):
        time.sleep(0.005)
    options = [part for setting in SETTINGS.split() for part in ("-c", setting)]
    os.execv(program("postgres"), ["postgres", "-D", folder, "-p", port, *options])


def program(name):
    found = shutil.which(name) or max(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"), default=None)
    return found or sys.exit(f"{name} is missing: install PostgreSQL")


def become_other_user(folder):
    """The folder is its own from now on, and the way there is open."""
    names = {user.pw_name for user in pwd.getpwall()}
    user = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    os.chown(folder, user.pw_uid, user.pw_gid)
    parent = os.path.dirname(os.path.abspath(folder))
    os.chmod(parent, os.stat(parent).st_mode | 0o011)
    os.chdir(folder)
    os.setgroups([])
    os.setgid(user.pw_gid)
    os.setuid(user.pw_uid)


def any_process_in(folder):
    return any(place == os.path.realpath(folder) for place in map(working_folder, glob.glob("/proc/[0-9]*")))


def working_folder(process):
    try:
        return os.readlink(f"{process}/cwd") if os.path.basename(process) != str(os.getpid()) else None
    except OSError:  # it has ended, or is somebody else's
        return None


main(*sys.argv[1:])
