"""Labels are pushed to a real Label Studio: predictions join the tasks of the project, and a second push replaces them.

    python -m label_studio.push --program build/label-studio/bin/label-studio

Run in tests/ (`make label-studio` does).
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import adjudge as adj
from label_studio.__main__ import CONFIG, adjudge, studio


def drive(program):
    """Push labels twice, and compare the predictions of every task with ours."""
    with tempfile.TemporaryDirectory(prefix="label-studio-") as name, studio(program, Path(name)) as server:
        project = server("POST", "/api/projects", {"title": "push", "label_config": CONFIG})["id"]
        server("POST", f"/api/projects/{project}/import", [{"text": f"text {number}"} for number in range(5)])
        tasks = [task["id"] for task in server("GET", f"/api/tasks?project={project}")["tasks"]]
        for number, task in enumerate(tasks):
            for vote in range(3):
                choice = {"choices": ["ok" if (number + vote) % 3 else "Spam!"]}
                answer = {"from_name": "kind", "to_name": "text", "type": "choices", "value": choice}
                server("POST", f"/api/tasks/{task}/annotations/", {"result": [answer]})
        export = Path(name) / "export.json"
        export.write_text(json.dumps(server("GET", f"/api/projects/{project}/export?exportType=JSON")))
        push = ["push", "label-studio", export, "--url", server.url, "--json", "--token"]
        for model, new in (("mv", 5), ("mv", 0), ("fds", 5)):
            posted = json.loads(adjudge(*push, server.token, "--model", model))
            assert (posted["new"], posted["replaced"]) == (new, 5 - new)
        labels = dict(adj.aggregate(export, model="mv").labels.select("task", "label").iter_rows())
        after = server("GET", f"/api/tasks?project={project}&fields=all")["tasks"]
        assert sorted(task["id"] for task in after) == sorted(tasks), "a push adds no task"
        for task in after:
            by_model = {one["model_version"]: one["result"][0]["value"]["choices"] for one in task["predictions"]}
            assert len(task["predictions"]) == 2
            assert by_model["adjudge mv"] == [labels[task["id"]]]
        wrong = [sys.executable, "-m", "adjudge", *map(str, push), "wrong"]
        refused = subprocess.run(wrong, capture_output=True, text=True, check=False)
        assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
        assert "401" in refused.stderr


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--program", required=True)
    drive(arguments.parse_args().program)
