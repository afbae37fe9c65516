"""A private SLURM cluster of one node on this machine, for tests: own keys, ports, folders; no root, no cgroups. Its
node counts two GPUs that nothing stands behind."""
import glob
import os
import pwd
import re
import shutil
import socket
import subprocess
import tempfile
import time

NEEDS = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol", "squeue", "scancel")
CONF = """ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={port1}
SlurmdPort={port2}
AuthType=auth/munge
AuthInfo=socket={dir}/munge.sock,cred_expire=5
StateSaveLocation={dir}/state
SlurmdSpoolDir={dir}/spool
SlurmctldPidFile={dir}/slurmctld.pid
SlurmdPidFile={dir}/slurmd.pid
SlurmctldLogFile={dir}/slurmctld.log
SlurmdLogFile={dir}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
KillWait=3
SlurmdTimeout=30
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0,bf_interval=1
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} Gres=gpu:2 State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
"""


def find(name):
    """A program; daemons live in sbin, which users' PATH often lacks."""
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")


def missing():
    """Names of the programs that are not there."""
    return [n for n in NEEDS if not find(n)]


def free_ports():
    """Two ports that nobody has: bound at the same time, so that they differ."""
    with socket.socket() as s, socket.socket() as t:
        s.bind(("127.0.0.1", 0))
        t.bind(("127.0.0.1", 0))
        return s.getsockname()[1], t.getsockname()[1]


class Cluster:
    """start() it, submit(), wait(), stop(); self.env makes clients talk to it."""

    def __init__(self, cpus=2):
        self.dir = tempfile.mkdtemp(prefix="moao-slurm-", dir="/tmp")  # a socket's path must be short
        self.cpus, self.daemons = cpus, []
        self.env = dict(os.environ, SLURM_CONF=self.dir + "/slurm.conf")
        for name in [n for n in self.env if re.match(r"(SLURM_(?!CONF)|SBATCH_|OMPI_COMM|PMIX|OMP_)", n)]:
            del self.env[name]

    def start(self):
        host = socket.gethostname().split(".")[0]
        for sub in ("state", "spool"):
            os.mkdir(os.path.join(self.dir, sub))
        ports = free_ports()
        with open(self.dir + "/slurm.conf", "w", encoding="ascii") as f:
            f.write(CONF.format(host=host, user=pwd.getpwuid(os.getuid()).pw_name, dir=self.dir, cpus=self.cpus,
                                port1=ports[0], port2=ports[1]))
        for i in range(2):
            open("%s/gpu%d" % (self.dir, i), "wb").close()
        with open(self.dir + "/gres.conf", "w", encoding="ascii") as f:
            f.write("AutoDetect=off\nName=gpu File=%s/gpu[0-1]\n" % self.dir)
        version = subprocess.run([find("slurmctld"), "-V"], stdout=subprocess.PIPE, universal_newlines=True,
                                 check=True).stdout
        m = re.search(r"(\d+)\.(\d+)", version)
        if m and (int(m.group(1)), int(m.group(2))) >= (23, 11):
            with open(self.dir + "/cgroup.conf", "w", encoding="ascii") as f:
                f.write("CgroupPlugin=disabled\n")
        with open(self.dir + "/munge.key", "wb") as f:
            os.fchmod(f.fileno(), 0o600)
            f.write(os.urandom(1024))
        self.spawn("munged", "--foreground", "--force", *["--%s=%s/munge.%s" % (o, self.dir, e) for o, e in (
            ("key-file", "key"), ("socket", "sock"), ("pid-file", "pid"), ("log-file", "log"), ("seed-file", "seed"))])
        self.until(lambda: os.path.exists(self.dir + "/munge.sock"), 60, "munged does not start")
        self.spawn("slurmctld", "-D", "-c", "-f", self.dir + "/slurm.conf")
        self.spawn("slurmd", "-D", "-c", "-f", self.dir + "/slurm.conf", "-N", host)
        self.until(lambda: self.call("sinfo", "-h", "-o", "%T").strip() == "idle", 120, "no idle node")

    def spawn(self, name, *args):
        with open("%s/%s.out" % (self.dir, name), "wb") as out:
            self.daemons.append(subprocess.Popen([find(name)] + list(args), env=self.env, stdin=subprocess.DEVNULL,
                                                 stdout=out, stderr=subprocess.STDOUT, cwd=self.dir))

    def stop(self):
        """End the jobs and the daemons, by their process numbers."""
        if len(self.daemons) == 3:
            self.call("scancel", "--user", str(os.getuid()))
            try:
                self.until(lambda: not self.call("squeue", "-h").strip(), 60, "jobs do not end")
            except AssertionError:
                pass
        for p in reversed(self.daemons):
            p.terminate()
            try:
                p.wait(30)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()
        shutil.rmtree(self.dir, ignore_errors=True)

    def call(self, name, *args, cwd=None, env=None):
        """Output of a client, errors included."""
        return subprocess.run([find(name)] + list(args), env=dict(self.env, **(env or {})), cwd=cwd,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              universal_newlines=True, check=False, timeout=60).stdout

    def submit(self, *args, cwd, env=None):
        """Submit a batch script; its job number."""
        out = self.call("sbatch", "--parsable", *args, cwd=cwd, env=env).strip()
        if not out.isdigit():
            raise AssertionError("sbatch: " + out)
        return out

    def states(self, job):
        """States of a job and of its array tasks, as scontrol tells them."""
        return re.findall(r"JobState=(\w+)", self.call("scontrol", "show", "job", job))

    def signal_script(self, sig, variable, value):
        """Send a signal to the batch script in whose environment a variable has a value. (scancel, given a task of an
        array, repeats its signal every few seconds as long as the task lives.)"""
        mark = ("%s=%s" % (variable, value)).encode()
        found = []
        for path in glob.glob("/proc/[0-9]*"):
            try:
                with open(path + "/cmdline", "rb") as f, open(path + "/environ", "rb") as g:
                    if b"slurm_script" in f.read() and mark in g.read().split(b"\0"):
                        found.append(int(os.path.basename(path)))
            except OSError:
                pass
        os.kill(min(found), sig)

    def until(self, condition, seconds, what):
        """Wait for a condition."""
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise AssertionError("%s within %d s\n%s" % (what, seconds, self.logs()))
            time.sleep(0.1)

    def wait(self, job, seconds):
        """Wait until a job (all tasks of an array) is over; its states."""
        over = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"}
        self.until(lambda: set(self.states(job)) <= over, seconds, "job %s is not over" % job)
        return self.states(job)

    def logs(self):
        text = ""
        for name in ("munge.log", "slurmctld.log", "slurmd.log", "slurmctld.out", "slurmd.out"):
            path = os.path.join(self.dir, name)
            if os.path.exists(path):
                with open(path, encoding="utf-8", errors="replace") as f:
                    text += "--- %s\n%s" % (name, "".join(f.readlines()[-15:]))
        return text
