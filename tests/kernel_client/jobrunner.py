"""PID 1 of the guest after boot: runs the jobs the host drops into queue/.

A job is a directory with `script` (executed with bash) and an empty `go`
file created last.  Output goes to `out`, the exit status to `rc`; a `kill`
file makes us SIGKILL the job's process group.
"""

import os
import signal
import subprocess
import sys
import time

base = sys.argv[1]
queue = os.path.join(base, "queue")
os.makedirs(queue, exist_ok=True)
signal.signal(signal.SIGINT, signal.SIG_IGN)

jobs = {}  # job id -> Popen
seen = set(os.listdir(queue))  # left from before a crash: not ours


def finish(job, rc):
    d = os.path.join(queue, job)
    tmp = os.path.join(d, "rc.tmp")
    with open(tmp, "w") as f:
        f.write("%d\n" % rc)
    os.rename(tmp, os.path.join(d, "rc"))


def start(job):
    d = os.path.join(queue, job)
    out = os.open(os.path.join(d, "out"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        jobs[job] = subprocess.Popen(
            ["/bin/bash", os.path.join(d, "script")],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            cwd="/tmp",
        )
    finally:
        os.close(out)


with open(os.path.join(base, "ready"), "w") as f:
    f.write("%s\n" % open("/proc/uptime").read().split()[0])

idle = 0
while True:
    try:
        names = os.listdir(queue)
    except OSError:
        names = []
    busy = False
    for job in sorted(names):
        d = os.path.join(queue, job)
        if job not in seen and os.path.exists(os.path.join(d, "go")):
            seen.add(job)
            busy = True
            try:
                start(job)
            except Exception as e:  # keep serving whatever happens
                print("kc-jobs: job %s: %s" % (job, e), flush=True)
                finish(job, 126)
    for job, p in list(jobs.items()):
        if p.poll() is not None:
            finish(job, p.returncode if p.returncode >= 0 else 128 - p.returncode)
            del jobs[job]
            busy = True
        elif os.path.exists(os.path.join(queue, job, "kill")):
            try:
                os.killpg(p.pid, signal.SIGKILL)
            except OSError:
                pass
    # reap orphans (we are PID 1) without stealing our own children
    if not jobs:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass
    seen &= set(names) | set(jobs)
    idle = 0 if (busy or jobs) else idle + 1
    time.sleep(0.02 if idle < 100 else 0.05)
