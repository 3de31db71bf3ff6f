"""Results of promptfoo: the JSON of `promptfoo eval -o out.json`, and its JSON lines.

An assertion that a model, a person or a function decides stands for a judge: by its metric, else by its type and provider; the
second of a kind in a test has a number. Any other assertion is a question of its own. An assertion passes or fails; its score is
read if scores are wanted. An assertion whose grader failed is an abstention, and so are all
assertions of a test that ended in an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec

from adjudge.io.formats.export import Ask, Extract
from adjudge.io.formats.registry import Content, join_names
from adjudge.io.formats.verdicts import Verdicts, number_names

# Assertions that a model, a person or a function of the user decides; any other checks the text, and is a question of its own.
_MODEL_GRADED: Final = (
    "llm-rubric g-eval agent-rubric factuality model-graded-factuality model-graded-closedqa answer-relevance pi"
)
_CONTEXT_GRADED: Final = (
    "context-faithfulness context-recall context-relevance conversation-relevance search-rubric moderation classifier"
)
GRADERS: Final = frozenset(
    [*_MODEL_GRADED.split(), *_CONTEXT_GRADED.split(), "javascript", "python", "ruby", "webhook", "human", ""]
)
AnyResult = TypeVar("AnyResult")
UNGRADED: Final = "tests that ended in an error, without assertions"


class Assertion(msgspec.Struct, gc=False):
    """An assertion of a test, or a set of them."""

    type: str = ""
    metric: str | None = None
    provider: Any = None
    members: list[Assertion] | None = msgspec.field(name="assert", default=None)


class ComponentInfo(msgspec.Struct, gc=False):
    """What a grader has noted."""

    has_failed: bool = msgspec.field(name="graderError", default=False)


class Component(msgspec.Struct, gc=False):
    """The outcome of an assertion."""

    passed: bool = msgspec.field(name="pass")
    score: float | None = None
    assertion: Assertion | None = None
    metadata: ComponentInfo | None = None


class Grading(msgspec.Struct, gc=False):
    """The outcomes of all assertions."""

    components: list[Component] | None = msgspec.field(name="componentResults", default=None)


class TestCase(msgspec.Struct, frozen=True, gc=False):
    """A test and its assertions."""

    assertions: list[Assertion] | None = msgspec.field(name="assert", default=None)


class Provider(msgspec.Struct, frozen=True, gc=False):
    """Who has answered."""

    id: str = ""
    label: str | None = None


class Prompt(msgspec.Struct, frozen=True, gc=False):
    """The prompt and its label."""

    raw: str = ""
    label: str = ""


class TestResult(msgspec.Struct, gc=False):
    """A test x prompt x provider."""

    test: int = msgspec.field(name="testIdx")
    index: int = msgspec.field(name="promptIdx")
    prompt: Prompt = Prompt()
    provider: Provider = Provider()
    grading: Grading | None = msgspec.field(name="gradingResult", default=None)
    case: TestCase = msgspec.field(name="testCase", default=TestCase())


class ResultItem(TestResult):
    """The same, and its content."""

    vars: dict[str, Any] = {}
    response: Any = None


class Summary(msgspec.Struct, Generic[AnyResult]):
    """All results."""

    results: list[AnyResult]


class Output(msgspec.Struct, Generic[AnyResult]):
    """A file of results."""

    results: Summary[AnyResult]


def read_all(contents: Sequence[Content], ask: Ask) -> Extract:
    """Return the outcomes of assertions."""
    verdicts = Verdicts(ask, join_names(contents))
    for result, task in _tasks(contents, TestResult):
        _take(verdicts, result, task)
    return verdicts.extract({"task": "testIdx", "worker": "assertion.metric, else type", "label": "componentResults[].pass"})


def items(contents: Sequence[Content]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield variables, prompt, provider and output of each result."""
    for result, task in _tasks(contents, ResultItem):
        output = result.response.get("output") if isinstance(result.response, dict) else None
        provider = result.provider.label or result.provider.id
        yield task, {**result.vars, "prompt": result.prompt.raw, "provider": provider, "output": output}


def _take(verdicts: Verdicts, result: TestResult, task: str) -> None:
    components = result.grading.components or [] if result.grading is not None else []
    expected = number_names([_name(assertion) for assertion in _flatten(result.case.assertions or ())])
    if not components and not expected:
        verdicts.skipped[UNGRADED] += result.grading is None
    names = number_names([_name(component.assertion or Assertion()) for component in components])
    for name, component in zip(names, components, strict=True):
        has_failed = component.metadata is not None and component.metadata.has_failed
        label, score = (None, None) if has_failed else (component.passed, component.score)
        is_check = component.assertion is not None and component.assertion.type.removeprefix("not-") not in GRADERS
        verdicts.add_scored(name, name, task, label, score, is_question=is_check)
    for name in expected:
        if name not in names:
            verdicts.add(name, name, task, None)


def _flatten(assertions: Sequence[Assertion]) -> Iterator[Assertion]:
    """Yield assertions, with the members of a set in its place."""
    for assertion in assertions:
        yield from _flatten(assertion.members) if assertion.members else (assertion,)


def _name(assertion: Assertion) -> str:
    provider = assertion.provider.get("id") if isinstance(assertion.provider, dict) else assertion.provider
    return (
        assertion.metric or " ".join(part for part in (assertion.type, provider) if isinstance(part, str) and part) or "assertion"
    )


def _tasks(contents: Sequence[Content], kind: Any) -> Iterator[tuple[Any, str]]:
    """Yield the results of files, and their ids, which begin with the name of the file if there are several."""
    for content in contents:
        results = _results(content, kind)
        prefix = f"{content.name}/" if len(contents) > 1 else ""
        for result, task in zip(results, _task_ids(results), strict=True):
            yield result, prefix + task


def _task_ids(results: Sequence[TestResult]) -> list[str]:
    """Return ids of results: the number of the test, then provider and prompt, if there are several of these."""
    providers = {result.provider.label or result.provider.id for result in results}
    places = {(result.provider.label or result.provider.id, result.index): None for result in results}
    prompts: dict[str, dict[int, int]] = {provider: {} for provider in providers}
    for provider, index in sorted(places):
        prompts[provider][index] = len(prompts[provider])
    has_prompts = any(len(numbers) > 1 for numbers in prompts.values())
    ids = []
    for result in results:
        provider = result.provider.label or result.provider.id
        number = [f"prompt {prompts[provider][result.index]}"] if has_prompts else []
        ids.append("/".join([str(result.test), *([provider] if len(providers) > 1 else []), *number]))
    return ids


def _results(content: Content, kind: Any) -> list[Any]:
    if content.has("gradingResult"):
        return content.decoded(kind)
    return [result for output in content.decoded(Output[kind]) for result in output.results.results]
