"""A real Label Studio posts to a real service: after every act of its users, its export equals the votes in force.

    python -m label_studio --program build/label-studio/bin/label-studio [--payloads payloads.jsonl]

Run in tests/ (`make label-studio` does). Everything listens on loopback, and ends after the limit at the latest.
"""

import argparse
import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import warnings
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import numpy as np

import adjudge as adj
from server_process import Served

CONFIG = """<View><Text name="text" value="$text"/>
<Choices name="kind" toName="text" choice="single"><Choice value="Spam!"/><Choice value="ok"/></Choices>
<Choices name="tone" toName="text" choice="single"><Choice value="loud"/><Choice value="calm"/></Choices></View>"""
GUIDE = Path(__file__).parents[2] / "docs" / "label-studio.md"
STEPS = ("studio", "service", "variables", "access", "token", "register", "votes", "export", "push", "deletion")
SETTINGS = {
    "SSRF_PROTECTION_ENABLED": "false",  # or it posts to no private address
    "WEBHOOK_TIMEOUT": "30",  # seconds: with the usual one it does not wait on a busy machine, and we would look too soon
    "LABEL_STUDIO_ENABLE_LEGACY_API_TOKEN": "true",
    "COLLECT_ANALYTICS": "false",
    "LATEST_VERSION_CHECK": "false",
    "SENTRY_DSN": "",
    "FRONTEND_SENTRY_DSN": "",
}


class Studio:
    """Label Studio's REST interface, and its project."""

    def __init__(self, url, token):
        self.url, self.token = url, token

    def __call__(self, method, path, body=None):
        headers = {"Authorization": f"Token {self.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(
            self.url + path, None if body is None else json.dumps(body).encode(), headers, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            raise SystemExit(f"{method} {path}: {error.code} {error.read()[:500]!r}") from None
        return json.loads(text) if text else None

    def annotate(self, task, *choices, by=1, query="", **more):
        """Make an annotation, and return its id."""
        return self("POST", f"/api/tasks/{task}/annotations/{query}", {"result": result(*choices), "completed_by": by, **more})[
            "id"
        ]

    def change(self, annotation, **fields):
        self("PATCH", f"/api/annotations/{annotation}/", fields)

    def act(self, action, tasks, **more):
        """Do what the data manager does with selected tasks."""
        body = {"selectedItems": {"all": False, "included": tasks}, **more}
        self("POST", f"/api/dm/actions?id={action}&project={self.project}", body)

    def export(self):
        return self("GET", f"/api/projects/{self.project}/export?exportType=JSON&download_all_tasks=true")


def result(*choices):
    """What an annotation with these choices has; a second question is answered as well."""
    if not choices:
        return []
    tone = {"from_name": "tone", "to_name": "text", "type": "choices", "value": {"choices": ["calm"]}}
    return [{"from_name": "kind", "to_name": "text", "type": "choices", "value": {"choices": list(choices)}}, tone]


@contextmanager
def studio(program, folder):
    """Yield a new Label Studio on loopback; all its processes end with it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    token = secrets.token_hex(20)
    command = [program, "start", "--data-dir", folder / "data", "--internal-host", "127.0.0.1", "--port", port, "--no-browser"]
    command += ["--username", "ann@example.org", "--password", secrets.token_hex(12), "--user-token", token]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | SETTINGS
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*map(str, command), "--enable-legacy-api-token"],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
                break
            except OSError:
                if process.poll() is not None:
                    raise SystemExit((folder / "log").read_text()[-4000:]) from None
                time.sleep(1)
        yield Studio(f"http://127.0.0.1:{port}", token)
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # it has a session of its own, and nothing to keep
        process.wait()


@contextmanager
def recorder(path):
    """Yield an address whose posts are written to a file, a line of JSON each."""

    class Record(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with path.open("a") as file:
                file.write(json.dumps(body) + "\n")
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Record)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()


def theirs(studio, folder):
    """Votes and gold of the project's export, by our own reader; of several annotations of one person the newest counts."""
    tasks = studio.export()
    for task in tasks:
        task["annotations"].sort(key=lambda annotation: (annotation["updated_at"], annotation["id"]))
    path = folder / "export.json"
    path.write_text(json.dumps(tasks))
    if not any(result for task in tasks for annotation in task["annotations"] for result in annotation["result"]):
        return {}, {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says what it left out: skipped annotations among others
        votes = adj.read(path, question="kind", duplicates="last")
    workers, tasks = votes.row_worker(), np.repeat(np.arange(votes.n_tasks), np.diff(votes.task_ptr))
    rows = {
        (str(votes.tasks[int(task)]), str(votes.workers[int(workers[row])])): votes.labels[int(votes.row_label[row])]
        for task, row in zip(tasks, votes.row, strict=True)
    }
    gold = votes.found_gold
    codes = [] if gold is None else enumerate(gold.labels)
    return rows, {str(gold.tasks[task]): votes.labels[int(code)] for task, code in codes}


def ours(service, token, tasks):
    """Votes and gold of our campaign."""
    votes, after = {}, 0
    while after is not None:
        page = service.ask("GET", f"/v1/campaigns/default/votes?after={after}", token=token)[1]
        votes |= {(vote["task"], vote["worker"]): vote["label"] for vote in page["votes"]}
        after = page.get("next")
    gold = {}
    for task in tasks:
        status, view, _ = service.ask("GET", f"/v1/campaigns/default/tasks/{task}", token=token)
        if status == 200 and view["gold"] is not None:
            gold[str(task)] = view["gold"]
    return votes, gold


def acts(studio, tasks, guide):
    """Yield what people do in Label Studio, act by act: after each, votes are compared."""
    a, b, c, d, e, f, g = tasks
    studio.annotate(c, "ok", by=2)
    early = studio.annotate(c, "Spam!")
    guide.follow("access")
    guide.follow("token")
    guide.follow("register")
    guide.follow("export")
    yield "annotations from before the webhook"
    assert '"label": "Spam!"' in guide.follow("votes")
    guide.follow("push")
    guide.follow("export")
    yield "the same again"
    guide.values["ANNOTATION"] = str(early)
    studio("POST", f"/api/annotations/{early}/convert-to-draft", {})
    guide.follow("deletion")
    yield "a draft, told by hand"
    one = studio.annotate(a, "ok")
    yield "create"
    studio.annotate(a, "Spam!", by=2)
    yield "a second person"
    studio.change(one, result=result("Spam!"))
    yield "change"
    studio.change(one, result=result("ok"))
    yield "toggle back"
    studio.change(one, result=result("ok"))
    yield "save unchanged"
    first, second = studio.annotate(b, "ok"), studio.annotate(b, "Spam!")
    yield "two annotations of one person"
    studio.change(first, result=result("ok"))
    yield "the older one changed last"
    studio("DELETE", f"/api/annotations/{first}/")
    yield "delete one of two"
    studio("DELETE", f"/api/annotations/{second}/")
    yield "delete the other"
    later = studio.annotate(c, "ok")
    studio.annotate(c, by=2, query="?was_cancelled=1")
    yield "skip"
    studio.change(later, was_cancelled=True)
    yield "cancel later"
    studio.change(later, was_cancelled=False)
    yield "annotate after all"
    studio.change(later, result=result())
    yield "remove the choice"
    studio.change(later, result=result("Spam!"))
    yield "choose again"
    true = studio.annotate(d, "ok")
    other = studio.annotate(d, "Spam!", by=2)
    studio.change(true, ground_truth=True)
    yield "ground truth"
    studio.change(other, ground_truth=True)
    yield "ground truth moves to another annotation"
    studio.change(other, ground_truth=False)
    yield "ground truth withdrawn"
    studio.change(true, ground_truth=True)
    studio("DELETE", f"/api/annotations/{true}/")
    yield "ground truth deleted"
    studio.annotate(e, "ok")
    studio.annotate(e, "Spam!", by=2, ground_truth=True)
    yield "a task with ground truth"
    studio("DELETE", f"/api/tasks/{e}/")
    yield "delete the task"
    studio.act("predictions_to_annotations", [f], model_version="model")
    yield "annotations from predictions"
    studio.act("delete_tasks_annotations", [a, f])
    yield "delete all annotations of two tasks"
    studio.annotate(g, "ok")
    studio.annotate(g, "ok", by=2)
    yield "votes on the last task"
    studio.act("delete_tasks", [b, g])
    yield "delete several tasks"


def adjudge(*arguments):
    """What a command prints; raises if it fails."""
    command = [sys.executable, "-m", "adjudge", *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


class Guide:
    """The commands of the page about Label Studio, which are run as they are written."""

    def __init__(self, folder, **values):
        blocks = re.findall(r"^```bash\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
        self.commands = dict(zip(STEPS, blocks, strict=True))
        self.folder, self.values = folder, values

    def follow(self, step):
        """Run a step, with the variables of all before."""
        program = f'adjudge() {{ "{sys.executable}" -m adjudge "$@"; }}\n{self.commands[step]}\n'
        program += 'echo; echo "${STUDIO_AUTH:-}"; echo "${TOKEN:-}"'
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", program],
            cwd=self.folder,
            env=os.environ | self.values,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            timeout=60,
        )
        *_, self.values["STUDIO_AUTH"], self.values["TOKEN"] = done.stdout.splitlines()
        return done.stdout


def drive(program, payloads):
    """Compare after every act; return how many there were."""
    with tempfile.TemporaryDirectory(prefix="label-studio-") as name, studio(program, Path(name)) as label_studio:
        folder = Path(name)
        store = folder / "votes.db"
        token = adjudge("token", "add", "checks", "--scope", "read", "--store", store).split()[0]
        with Served(store, "--labels", "Spam!,ok") as service, recorder(payloads or folder / "payloads.jsonl") as url:
            project = label_studio.project = label_studio("POST", "/api/projects/", {"title": "Spam", "label_config": CONFIG})[
                "id"
            ]
            label_studio("POST", "/api/webhooks/", {"project": project, "url": url})
            label_studio("POST", "/api/users/", {"email": "bo@example.org", "username": "bo", "password": secrets.token_hex(12)})
            prediction = {"model_version": "model", "result": result("ok")}
            texts = [{"data": {"text": f"text {number}"}, "predictions": [prediction]} for number in range(7)]
            label_studio("POST", f"/api/projects/{project}/import", texts)
            tasks = sorted(task["id"] for task in label_studio("GET", f"/api/tasks?project={project}")["tasks"])
            personal = label_studio("POST", "/api/token/")["token"]
            values = {"STUDIO": label_studio.url, "STUDIO_TOKEN": personal, "PROJECT": str(project)}
            guide, count = Guide(folder, **values, ADJUDGE=service.url), 0
            for count, act in enumerate(acts(label_studio, tasks, guide), 1):
                expected, found = theirs(label_studio, folder), ours(service, token, tasks)
                assert found == expected, f"{act}: Label Studio has {expected}, we have {found}"
                print(f"{act}: {len(expected[0])} votes, {len(expected[1])} gold, equal", flush=True)
            metrics = service.ask("GET", "/metrics", token=token)[1]
            assert 'adjudge_label_studio_skipped_total{campaign="default",reason="cancelled"} 2' in metrics
            service.end()
            assert any("was skipped by its annotator" in line for line in service.said)
        adjudge("doctor", store)
        return count


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("--limit", type=int, default=900, help="seconds")
    parser.add_argument("--payloads", type=Path, help="where to record what Label Studio posts")
    given = parser.parse_args()

    def give_up(*_):
        raise SystemExit(f"not done after {given.limit} seconds")

    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(given.limit)
    began = time.monotonic()
    count = drive(given.program.resolve(), given.payloads and given.payloads.resolve())
    print(f"{count} acts, {time.monotonic() - began:.0f} s: the export of Label Studio equals the votes after each")


if __name__ == "__main__":
    main()
