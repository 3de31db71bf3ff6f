"""The view *Policy*: the policy as a form and as JSON, back-tested before it is saved, and every version it ever had."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from starlette.responses import Response

from adjudge.errors import InputError, OptionError, quote
from adjudge.service.board.backtests import Test
from adjudge.service.board.pages import redirect
from adjudge.service.board.visit import PageRequest
from adjudge.service.campaigns.audits import TriedAudits
from adjudge.service.campaigns.policy import Policy
from adjudge.service.campaigns.rule import Rule
from adjudge.service.http.errors import Conflict, Invalid
from adjudge.service.http.types import Outcome, PolicyView

if TYPE_CHECKING:
    from adjudge.service.http.campaign import Campaign

MAX_POLICY_CHARACTERS: Final = 200_000


class FormField(NamedTuple):
    """A field of the form.

    - `name`: in the document; a dot separates a part from its field.
    - `kind`: whole, number, flag, or confidence; `optional`: whether it may be empty, which is null.
    """

    name: str
    kind: str
    title: str
    help: str
    optional: bool = False


FORM_PARTS: Final[Mapping[str, tuple[FormField, ...]]] = {
    "Votes": (
        FormField("minimum_votes", "whole", "Votes at least", "No task is decided by fewer votes."),
        FormField("maximum_votes", "whole", "Votes at most", "Then a person decides. Empty: never.", optional=True),
        FormField(
            "confidence",
            "confidence",
            "Confidence",
            'A number, or JSON: {"label": number}. Empty: 0.9.',
            optional=True,
        ),
        FormField("hysteresis", "number", "Hysteresis", "How far confidence may fall before a decision is given up."),
    ),
    "Time": (
        FormField("hold", "number", "Hold, in seconds", "How long a label has to stay the likeliest one before it is decided."),
        FormField("lock", "number", "Lock, in seconds", "Then votes no longer change a decision. Empty: never.", optional=True),
    ),
    "People": (
        FormField("escalate.votes_run_out", "flag", "Ask a person when votes run out", ""),
        FormField("escalate.tie", "flag", "Ask a person about ties", ""),
        FormField(
            "escalate.disagreement",
            "number",
            "Ask a person above this disagreement",
            "A share of votes. Empty: never.",
            optional=True,
        ),
        FormField("experts.decide", "flag", "An expert's vote decides at once", ""),
        FormField("reopen.votes", "whole", "Votes after an appeal", "So many more before votes decide again."),
        FormField("quorum.groups", "whole", "Groups that have to agree", "Empty: any one group will do.", optional=True),
        FormField("quorum.votes", "whole", "Votes from each of them", "", optional=True),
    ),
    "Safety": (
        FormField("probation.votes", "whole", "Probation: judged votes", "Empty: no probation.", optional=True),
        FormField("probation.accuracy", "number", "Probation: share right", "", optional=True),
        FormField("breakers.window", "whole", "Breakers: latest decisions watched", "Empty: no breakers.", optional=True),
        FormField("breakers.label_share", "number", "Breakers: a label's share moves by", "", optional=True),
        FormField("breakers.disagreement", "number", "Breakers: disagreement rises by", "", optional=True),
        FormField("breakers.flip_rate", "number", "Breakers: flips rise by", "", optional=True),
        FormField("audit.share", "number", "Audits: share of decisions", "Judged blind. Empty: no audits.", optional=True),
        FormField("audit.error", "number", "Audits: accepted error rate", "", optional=True),
        FormField("audit.deadline_days", "number", "Audits: days to answer", "", optional=True),
    ),
}
FIELDS: Final = {field.name: field for fields in FORM_PARTS.values() for field in fields}
# Empty: the whole part is null.
SWITCHES: Final = {"quorum": "groups", "probation": "votes", "breakers": "window", "audit": "share"}


def fields_of(document: Mapping[str, Any]) -> dict[str, str]:
    """Return a policy's document as the values of the form.

    >>> fields = fields_of(Policy(confidence={"spam": 0.95, "*": 0.8}).document())
    >>> fields["minimum_votes"], fields["confidence"], fields["escalate.tie"], fields["quorum.groups"]
    ('3', '{"*":0.8,"spam":0.95}', '', '')
    """
    found: dict[str, str] = {}
    for name in FIELDS:
        part, _, key = name.partition(".")
        value = document.get(part)
        value = value.get(key) if key and isinstance(value, Mapping) else None if key else value
        if value is None or value is False:
            found[name] = ""
        elif value is True:
            found[name] = "1"
        elif isinstance(value, Mapping):
            found[name] = msgspec.json.encode(value).decode()
        else:
            found[name] = str(value).removesuffix(".0")
    return found


def document_of(form: Mapping[str, str], before: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document that the values of a form say; what the form does not show stays as it was.

    - `before`: the document that the form was made from.

    >>> document_of(fields_of(Policy().document()) | {"minimum_votes": "5"}, Policy().document())["minimum_votes"]
    5
    """
    document = {key: dict(value) if isinstance(value, Mapping) else value for key, value in before.items()}
    for name, field in FIELDS.items():
        part, _, key = name.partition(".")
        value = _value(field, form.get(name, "").strip())
        if not key:
            document[part] = value
        elif isinstance(document.get(part), dict):
            document[part][key] = value
        else:
            document[part] = {key: value}
    for part, key in SWITCHES.items():
        section = document[part]
        if section is None or section.get(key) is None:
            document[part] = None
        elif part != "breakers":  # there, null switches one of them off
            document[part] = {name: value for name, value in section.items() if value is not None}
    return document


def _value(field: FormField, text: str) -> Any:
    if field.kind == "flag":
        return text == "1"
    if not text:
        if field.optional:
            return None
        raise Invalid(f"{field.name} is empty: give a number")
    if field.kind == "confidence" and text.startswith("{"):
        try:
            return msgspec.json.decode(text, type=dict[str, float])
        except msgspec.MsgspecError as error:
            raise Invalid(f"confidence is not JSON with a number per label: {error}") from None
    try:
        return int(text) if field.kind == "whole" else float(text)
    except ValueError:
        raise Invalid(f"{field.name} is {quote(text)}: give a {'whole number' if field.kind == 'whole' else 'number'}") from None


class PolicyDraft(NamedTuple):
    """A policy that is not saved.

    - `text`: as JSON; `line`: that of the last right one, in one line; `fields`: as the form has it.
    - `document`: None if it is wrong, and then `error` says why.
    - `is_new`: whether it differs from the policy that holds.
    """

    text: str
    line: str
    fields: dict[str, str]
    document: dict[str, Any] | None
    error: str | None
    is_new: bool


def check(campaign: Campaign, document: Mapping[str, Any]) -> Policy:
    """Return the policy of a document; raise if anything in it is wrong for the labels of a campaign."""
    try:
        policy = Policy.of(document)
        Rule(policy, campaign.state.labels)
    except (InputError, OptionError) as error:
        raise Invalid(error) from None
    return policy


def _draft(campaign: Campaign, form: Mapping[str, str]) -> PolicyDraft:
    """Return what was sent, checked."""
    holds = campaign.state.policy
    text = form.get("json", "")
    if len(text) > MAX_POLICY_CHARACTERS:
        raise Invalid(f"the policy has {len(text)} characters: at most {MAX_POLICY_CHARACTERS} are taken")
    fields = {name: form.get(name, "") for name in FIELDS}
    try:
        if form.get("source") == "form":
            document: Any = document_of(form, _decoded(text) if text else holds.document())
        else:
            document = _decoded(text)
        policy = check(campaign, document)
    except Invalid as error:
        shown = fields if form.get("source") == "form" else fields_of(holds.document())
        return PolicyDraft(text, holds.to_json(), shown, None, str(error), True)
    known = policy.document()
    return PolicyDraft(policy.to_json(indent=2), policy.to_json(), fields_of(known), known, None, policy != holds)


def _decoded(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Invalid(f"the policy is not a JSON object: {error}") from None


async def show(visit: PageRequest) -> Response:
    """Show the policy that holds, an earlier version, or a back-test."""
    campaign, tests = visit.campaign, visit.board.tests
    test = tests.find(campaign, visit.query.get("test"))
    wanted = visit.query.get("version", "")
    document = campaign.state.policy.document()
    if test is not None:
        document = test.document
    elif wanted.isascii() and wanted.isdigit() and 1 <= int(wanted[:9]) <= campaign.state.version:
        document = campaign.state.policies[int(wanted[:9]) - 1].policy.document()
    draft = _draft(campaign, {"json": msgspec.json.encode(document).decode()})
    return await _page(visit, draft, test)


async def _page(visit: PageRequest, draft: PolicyDraft, test: Test | None, *, status: int = 200, told: str = "") -> Response:
    campaign = visit.campaign
    versions = await campaign.policies()
    answer = None if test is None else test.answer
    values = {
        "draft": draft,
        "test": test,
        "compared": None if answer is None else compare(answer.before, answer.after),
        "versions": list(reversed(versions)),
        "version": visit.form.get("version") or str(campaign.state.version),
        "form": FORM_PARTS,
        "told": told,
        "sentence": _sentence(versions[-1], test),
        "note": visit.form.get("note", ""),
    }
    return visit.board.pages.page("policy.html", visit, values, status=status)


def _sentence(holds: PolicyView, test: Test | None) -> str:
    from adjudge.report import words

    if test is not None and test.answer is not None:
        answer = test.answer
        return f"Back-test: {words.count(answer.changed)} of {words.tally(answer.tasks, 'task')} would be decided otherwise."
    if test is not None and test.error is not None:
        return f"The back-test ended early: {test.error}"
    if test is not None:
        return f"The back-test is running: {words.percent(test.share)} of the log."
    return f"Version {holds.version} of the policy holds."


class Row(NamedTuple):
    """A figure of a back-test, under both policies."""

    what: str
    before: str
    after: str


def compare(before: Outcome, after: Outcome) -> list[Row]:
    """Return the figures of a back-test, side by side."""
    from adjudge.report import words
    from adjudge.service.board.pages import duration

    def seconds(value: float | None) -> str:
        return "–" if value is None else duration(value)

    def errors(value: float | None) -> str:
        return "–" if value is None else words.percent(1.0 - value)

    rows = [
        Row("Decided", words.count(before.decided), words.count(after.decided)),
        Row("Left to a person", words.count(before.escalated), words.count(after.escalated)),
        Row("Open", words.count(before.open), words.count(after.open)),
        Row("Votes needed", words.count(before.votes), words.count(after.votes)),
        Row("Time to decision, median", seconds(before.seconds), seconds(after.seconds)),
        Row("Flips", words.count(before.flips), words.count(after.flips)),
        Row(
            f"Wrong, of {words.tally(after.gold, 'task')} with a known truth",
            errors(before.accuracy),
            errors(after.accuracy),
        ),
    ]
    tried = before.audits, after.audits
    if any(tried):
        rows += [
            Row("Audits that are drawn", *("–" if side is None else words.count(side.drawn) for side in tried)),
            Row("Wrong, of those with a known label", *("–" if side is None else _audited(side) for side in tried)),
        ]
    return rows


def _audited(audits: TriedAudits) -> str:
    """Return how many audited decisions were wrong, with the bounds of their rate."""
    from adjudge.report import words

    low, high = map(words.percent, audits.interval)
    alarm = ", alarm" if audits.alarmed else ""
    return f"{words.count(audits.wrong)} of {words.count(audits.known)} ({low} to {high}{alarm})"


async def act(visit: PageRequest) -> Response:
    """Check a draft, back-test it, or save it as a new version."""
    campaign, action, form = visit.campaign, visit.text("action"), visit.form
    draft = _draft(campaign, form)
    if action == "check" or draft.document is None:
        status = 200 if draft.document is not None or action == "check" else 422
        return await _page(visit, draft, None, status=status)
    if action == "test":
        started = visit.board.tests.start(campaign, draft.document, draft.text, visit.name)
        return redirect(visit.here("policy", test=started.key))
    if action != "save":
        raise Invalid(f"action is {quote(action)}: give check, test or save")
    visit.grant.check("admin", visit.ids[0])
    test = visit.board.tests.find(campaign, form.get("test"))
    if test is None or test.answer is None or test.document != draft.document:
        return await _page(visit, draft, None, status=409, told="Back-test this policy first: then its Save button appears.")
    version = form.get("version", "")
    if not (version.isascii() and version.isdigit() and len(version) < 10):
        raise Invalid("version is missing: reload the page and try again")
    try:
        await campaign.set_policy(draft.document, visit.name, visit.text("note") or None, int(version))
    except Conflict as conflict:
        return await _page(visit, draft, None, status=409, told=str(conflict))
    return redirect(visit.here("policy"))
