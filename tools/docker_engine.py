"""A Docker engine to build and test with: installs it where apt can, starts it where we may.

python tools/docker_engine.py            make sure that an engine answers
python tools/docker_engine.py --install  install the packages first if they are missing
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

PACKAGES = {
    "dockerd": "docker.io",
    "docker-compose": "docker-compose",
    "debootstrap": "debootstrap",
}
START_DEADLINE_S = 60
LOG = Path("/var/log/muster-dockerd.log")
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def main() -> None:
    """Install if asked to, then start the engine if none answers."""
    if "--install" in sys.argv[1:]:
        install()
    start()


def answers() -> bool:
    """Whether an engine answers."""
    if shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "info"], check=False, capture_output=True).returncode == 0


def install() -> None:
    """Install what is missing with apt."""
    missing = sorted(
        {PACKAGES[name] for name in PACKAGES if shutil.which(name, path=_PATH) is None}
    )
    if not missing:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        sys.exit(f"install {', '.join(missing)} first: that takes root and apt")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "update", "-qq"], check=True, env=environment)
    subprocess.run(
        ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing, "iptables"],
        check=True,
        env=environment,
    )


def start() -> None:
    """Start dockerd and wait until it answers; it stays after us."""
    if answers():
        return
    dockerd = shutil.which("dockerd", path=_PATH)
    if dockerd is None or os.geteuid() != 0:
        sys.exit("no Docker engine answers, and starting one takes dockerd and root")
    with LOG.open("ab") as log:
        subprocess.Popen(
            [dockerd], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    until = time.monotonic() + START_DEADLINE_S
    while not answers():
        if time.monotonic() > until:
            sys.exit(f"dockerd does not answer:\n{LOG.read_text(errors='replace')[-3000:]}")
        time.sleep(0.3)


if __name__ == "__main__":
    main()
