"""How long it takes to begin: imports and --help, as ratios to `import numpy` in one run."""

import statistics
import subprocess
import sys
import time

COMMANDS = {
    "import numpy": [sys.executable, "-c", "import numpy"],
    "import quorate": [sys.executable, "-c", "import numpy, quorate"],
    "import polars": [sys.executable, "-c", "import polars"],
    "quorate --help": [sys.executable, "-m", "quorate", "--help"],
}


def main(repeats: int = 15) -> None:
    seconds = {name: [] for name in COMMANDS}
    for _ in range(repeats):
        for name, command in COMMANDS.items():
            began = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            seconds[name].append(time.perf_counter() - began)
    base = statistics.median(seconds["import numpy"])
    for name, times in seconds.items():
        print(f"{name:16} {statistics.median(times) * 1000:6.0f} ms  {statistics.median(times) / base:5.2f} x import numpy")


if __name__ == "__main__":
    main()
