"""What the tests of an installation share: a root of their own for commands, and reading the container recipes.

Everything that is mounted lies in a mount namespace that ends with the command, so nothing is left behind."""
import os
import re
import shutil
import signal
import subprocess

ROOT = os.environ.get("MOAO_ROOT") or os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NOBODY = 65534  # user and group of the commands that need no rights
PATH = "/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin"


def works():
    """Whether this process may make a mount namespace and change its root."""
    if os.geteuid() != 0 or not all(shutil.which(t) for t in ("unshare", "chroot", "setpriv", "mount")):
        return False
    return subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, check=False).returncode == 0


def sources():
    """Files of the project, as git lists them; all but what is built where there is no git."""
    p = subprocess.run(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard"], stdout=subprocess.PIPE,
                       stderr=subprocess.DEVNULL, universal_newlines=True, check=False)
    if p.returncode == 0:
        return [f for f in p.stdout.split("\n") if os.path.isfile(os.path.join(ROOT, f))]
    found = []
    for folder, names, files in os.walk(ROOT):
        names[:] = [n for n in names if os.path.relpath(os.path.join(folder, n), ROOT) not in ("build", "demo-out", ".git")]
        found += [os.path.relpath(os.path.join(folder, f), ROOT) for f in files]
    return found


def copy_sources(folder, owner=0):
    """The project's files into a folder, which belong to a user then."""
    for name in sources():
        to = os.path.join(folder, name)
        os.makedirs(os.path.dirname(to), exist_ok=True)
        shutil.copy2(os.path.join(ROOT, name), to)
    if owner:
        for top, folders, files in os.walk(folder):
            for name in [top] + [os.path.join(top, n) for n in folders + files]:
                os.chown(name, owner, owner, follow_symlinks=False)


def finish(words, timeout, **how):
    """(exit code, text) of a command. One that takes longer is killed with all that it started, which would keep the pipe open;
    subprocess.TimeoutExpired has what it printed."""
    p = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         universal_newlines=True, start_new_session=True, **how)
    try:
        text, _ = p.communicate(timeout=timeout)
    except BaseException as e:  # Ctrl-C too: the command has a session of its own
        os.killpg(p.pid, signal.SIGKILL)
        text, _ = p.communicate()
        if isinstance(e, subprocess.TimeoutExpired):
            raise subprocess.TimeoutExpired(e.cmd, timeout, text) from None
        raise
    return p.returncode, text


def call(root, command, user=0, cwd="/", env=None, binds=(), timeout=600):
    """Run a shell command in a root folder as a user, with /proc, /sys, /dev and a /dev/shm of its own; (exit code, text).
    binds: (folder outside, folder inside), read-only. Its processes have a namespace, and end with it."""
    mounts = ["mount -t proc proc %s/proc" % root, "mount --rbind /sys %s/sys" % root, "mount --rbind /dev %s/dev" % root,
              "mount -t tmpfs -o mode=1777 shm %s/dev/shm" % root]
    for outside, inside in binds:
        mounts += ["mount --bind %s %s%s" % (outside, root, inside), "mount -o remount,ro,bind %s%s" % (root, inside)]
    text = " && ".join(mounts) + ' && exec chroot %s %s sh -c "cd %s && $MOAO_COMMAND"' % (
        root, "setpriv --reuid %d --regid %d --clear-groups" % (user, user) if user else "", cwd)
    home = {"PATH": PATH, "HOME": cwd if user else "/root", "LC_ALL": "C.UTF-8", "MOAO_COMMAND": command}
    home.update({k: v for k, v in os.environ.items() if k.startswith("OPENBLAS_")})  # of the processor, which is the same
    return finish(["unshare", "-m", "-p", "--kill-child", "--propagation", "private", "sh", "-c", text], timeout,
                  env=dict(home, **(env or {})))


HOST = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/var/lib/dpkg", "/opt")  # what a root takes of this machine


class User:
    """An ordinary user with a home of its own: in a root that shows of this machine only the system's folders, read-only, where
    that is possible; else in a folder, with the rights taken away; else (not root) as whoever calls."""

    def __init__(self, folder, home="/var/astro"):
        self.inside, self.user = works(), NOBODY if os.geteuid() == 0 else 0
        self.root = os.path.join(folder, "root") if self.inside else ""
        self.home = home if self.inside else os.path.join(folder, "home")
        os.chmod(folder, 0o755)
        self.binds = []
        for path in HOST if self.inside else ():
            if os.path.islink(path):
                os.makedirs(os.path.dirname(self.root + path), exist_ok=True)
                os.symlink(os.readlink(path), self.root + path)
            elif os.path.isdir(path):
                os.makedirs(self.root + path)
                self.binds.append((path, path))
        if self.inside:
            for path in ("/proc", "/sys", "/dev", "/tmp"):
                os.makedirs(self.root + path)
            os.chmod(self.root + "/tmp", 0o1777)
        os.makedirs(self.root + self.home)
        self.give(self.home)

    def how(self):
        return "in a root of its own" if self.inside else "with the rights taken away" if self.user else "as who calls"

    def path(self, *names):
        """A path below the home, as seen from outside."""
        return os.path.join(self.root + self.home, *names)

    def give(self, path):
        """What lies at a path belongs to the user."""
        if self.user:
            subprocess.run(["chown", "-R", "%d:%d" % (self.user, self.user), self.root + path], check=True)

    def call(self, command, timeout=300, **env):
        """(exit code, text) of a shell command in the home."""
        env.setdefault("LC_ALL", "C.UTF-8")
        if self.inside:
            return call(self.root, command, user=self.user, cwd=self.home, env=env, binds=self.binds, timeout=timeout)
        words = ["setpriv", "--reuid", str(self.user), "--regid", str(self.user), "--clear-groups"] if self.user else []
        return finish(words + ["sh", "-c", command], timeout, cwd=self.home, env=dict({"PATH": PATH, "HOME": self.home}, **env))


def docker_steps():
    """Lines of containers/Dockerfile as (word, rest), comments left out, continued lines joined."""
    with open(os.path.join(ROOT, "containers", "Dockerfile"), encoding="utf-8") as f:
        text = re.sub(r"\\\n\s*", "", f.read())
    return [tuple(line.split(None, 1)) for line in text.split("\n") if line.strip() and not line.startswith("#")]


def apptainer_parts():
    """containers/moao.def: its header as a mapping, its sections as lists of lines."""
    header, sections, now = {}, {}, None
    with open(os.path.join(ROOT, "containers", "moao.def"), encoding="utf-8") as f:
        for line in f:
            line = line.strip()
            if line.startswith("%"):
                now = sections.setdefault(line[1:], [])
            elif line and not line.startswith("#"):
                if now is None:
                    key, value = line.split(":", 1)
                    header[key] = value.strip()
                else:
                    now.append(line)
    return header, sections
