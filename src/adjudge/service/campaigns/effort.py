"""How much work an event is: what takes more than some milliseconds to fold must not be folded on an event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from adjudge.service.store import events

if TYPE_CHECKING:
    from adjudge.service.campaigns.state import CampaignState

MAX_LIGHT_TASKS: Final = 64  # tasks whose change takes milliseconds
MAX_LIGHT_CELLS: Final = 1_000_000  # votes on one task times labels that take milliseconds to look at
MAX_LIGHT_LABELS: Final = 100  # whose squares …
MAX_LIGHT_VOTES: Final = 100_000  # … or so many votes, take milliseconds to look at
OF_ONE_TASK: Final = (events.Retraction, events.GoldSet, events.Override, events.Reopen, events.AuditAnswer)
HEAVY: Final = frozenset(
    {
        events.TasksAdded,
        events.PolicySet,
        events.Ban,
        events.Unban,
        events.Revisit,
        events.WorkerSet,
        events.LabelAdded,
        events.RefitBegun,
        events.RefitDone,
        events.Tick,
        events.Truncated,
        events.BreakerReset,
    }
)


def is_heavy(state: CampaignState, event: events.Event) -> bool:
    """Return whether folding an event may take more than some milliseconds: it looks at many tasks or votes.

    - `state`: the state that it is to be folded into.
    - `event`: the event.
    """
    if isinstance(event, events.Vote | events.Change):
        return is_vote_heavy(state, event.task, event.worker)
    if isinstance(event, events.Sweep):
        return event.decided + event.others + event.emptied > MAX_LIGHT_TASKS
    if isinstance(event, OF_ONE_TASK):
        return is_task_heavy(state, event.task)
    return type(event) in HEAVY


def is_task_heavy(state: CampaignState, name: str) -> bool:
    """Return whether a look at all votes on a task takes milliseconds."""
    most = MAX_LIGHT_CELLS // len(state.labels)
    return bool(state.votes > most and state.stream.votes_on(name) > most)


def has_heavy_votes(state: CampaignState) -> bool:
    """Return whether `is_vote_heavy` may say so of any vote."""
    return state.votes > MAX_LIGHT_VOTES or len(state.labels) > MAX_LIGHT_LABELS or state.policy.probation is not None


def is_vote_heavy(state: CampaignState, task: str, number: int | None, ahead: int = 1) -> bool:
    """Return whether a vote may take long: its task has very many votes, all votes must be looked at, or many now count.

    - `state`: the state that it is to be folded into.
    - `task`: of the vote.
    - `number`: of its worker, many of whose votes may be kept aside, and count from now on; None: a new one.
    - `ahead`: how many votes come together.
    """
    has_much = len(state.labels) > MAX_LIGHT_LABELS or state.votes > MAX_LIGHT_VOTES
    if has_much and (state.stream.due(state.kind, ahead) or is_task_heavy(state, task)):
        return True
    if state.policy.probation is None or number is None:
        return False
    worker = state.crowd.all.get(number)
    return worker is not None and worker.aside is not None and len(worker.aside) > MAX_LIGHT_TASKS
