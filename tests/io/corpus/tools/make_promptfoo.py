"""Make the logs of promptfoo here: `python make_promptfoo.py PATH/TO/promptfoo` (from npm); it calls no model and no network.

The provider and the graders are functions in JavaScript that look up the simulated answers and verdicts.
"""

import gzip
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from jury import ANSWERS, GRADERS, HERE, answer, grade, note, verdict

PROVIDER = """
const answers = require('./answers.json');
module.exports = class {
  constructor(options) { this.name = options.config.name; }
  id() { return this.name; }
  async callApi(prompt, context) {
    if (context.vars.n === 5 && this.name === 'second') return { error: 'the provider has failed' };
    return { output: answers[context.vars.n] };
  }
};
"""
GRADER = """
const verdicts = require('./verdicts.json');
module.exports = (output, context) => {
  const said = verdicts[context.config.grader][context.vars.n];
  if (said === null) throw Object.assign(new Error('no grade'), { stack: 'no grade' });
  return { pass: said.pass, score: said.score, reason: 'because' };
};
"""


def main(promptfoo):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "answers.json").write_text(json.dumps([answer(n)[1] for n in range(ANSWERS)]))
        said = {
            grader: [
                None if verdict(grader, n) is None else {"pass": verdict(grader, n), "score": grade(grader, n)}
                for n in range(ANSWERS)
            ]
            for grader in GRADERS
        }
        (folder / "verdicts.json").write_text(json.dumps(said))
        (folder / "provider.js").write_text(PROVIDER)
        (folder / "grader.js").write_text(GRADER)
        judges = [
            {"type": "javascript", "value": "file://grader.js", "metric": grader, "config": {"grader": grader}}
            for grader in GRADERS
        ]
        config = {
            "prompts": ["{{question}}"],
            "providers": [{"id": "file://provider.js", "label": "first", "config": {"name": "first"}}],
            "tests": [{"vars": {"question": answer(n)[0], "n": n}, "assert": judges} for n in range(ANSWERS)],
        }
        run(promptfoo, folder, config, "promptfoo.json", "promptfoo.jsonl")
        config["providers"].append({"id": "file://provider.js", "label": "second", "config": {"name": "second"}})
        config["prompts"].append("Please: {{question}}")
        checks = [{"type": "contains", "value": "makes"}, {"type": "regex", "value": r"\d{3}"}]
        few = [{"vars": {"question": answer(n)[0], "n": n}, "assert": [*judges[:2], *checks]} for n in range(8)]
        run(promptfoo, folder, config | {"tests": few}, "promptfoo-providers.json")


def run(promptfoo, folder, config, *names):
    (folder / "promptfooconfig.json").write_text(json.dumps(config))
    settings = {
        "PROMPTFOO_CONFIG_DIR": str(folder / "home"),
        "PROMPTFOO_DISABLE_TELEMETRY": "1",
        "PROMPTFOO_DISABLE_UPDATE": "1",
        "PROMPTFOO_DISABLE_REMOTE_GENERATION": "1",
    }
    command = [promptfoo, "eval", "-c", "promptfooconfig.json", "--no-cache", "--no-progress-bar", "--no-table", "--no-share"]
    command += [part for name in names for part in ("-o", name)]
    done = subprocess.run(command, cwd=folder, env=os.environ | settings, capture_output=True, text=True, check=False)
    assert (folder / names[0]).exists(), done.stdout + done.stderr
    for name in names:
        (HERE / f"{name}.gz").write_bytes(gzip.compress((folder / name).read_bytes(), mtime=0))
    made_by = json.loads((folder / names[0]).read_text())["metadata"]
    note(promptfoo=made_by["promptfooVersion"])


if __name__ == "__main__":
    main(sys.argv[1])
