"""The view *Reviewers*: the workers of a campaign, one of them, and bans with a preview."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from starlette.responses import Response

from adjudge.errors import quote
from adjudge.service.board import pictures
from adjudge.service.board.audit import GoldRecord, gold_of
from adjudge.service.board.pages import redirect
from adjudge.service.board.roster import SORTS, list_page
from adjudge.service.board.visit import PageRequest
from adjudge.service.campaigns.decision import Decision
from adjudge.service.http.errors import Invalid, NotFound

if TYPE_CHECKING:
    from adjudge.service.campaigns.state import CampaignState

LISTED_WORKERS: Final = 50
MAX_RECENT_VOTES: Final = 300  # of a worker that the drift is drawn of
SHOWN_VOTES: Final = 25
MAX_READ_VOTES: Final = 20_000  # of a worker that are looked at
MAX_SHOWN_CHANGES: Final = 100


class RecentVote(NamedTuple):
    """A vote of a worker on a task in memory."""

    task: str
    label: str
    decided: str | None
    status: str
    likely: float  # that the vote is right


async def show(visit: PageRequest) -> Response:
    """Show all workers."""
    campaign, query = visit.campaign, visit.query
    sort, search = query.get("sort", "votes"), query.get("q", "").strip()
    if sort not in SORTS:
        raise Invalid(f"sort has to be one of {', '.join(SORTS)}")
    descending = query.get("order", "up" if sort in ("name", "drift", "accuracy") else "down") == "down"
    roster = await visit.board.rosters.read(campaign)
    page = list_page(
        roster, sort=sort, descending=descending, search=search, after=query.get("after") or None, limit=LISTED_WORKERS
    )
    drawn = await visit.board.picture(campaign, roster)
    banned = int(roster.frame["banned"].sum())
    values = {
        "page": page,
        "total": len(roster.frame),
        "banned": banned,
        "sentence": _sentence(len(roster.frame), banned, drawn.sentence),
        "drawn": drawn if drawn.plots else None,
        "sort": sort,
        "sorts": SORTS,
        "descending": descending,
        "search": search,
    }
    return visit.board.pages.page("workers.html", visit, values)


def _sentence(workers: int, banned: int, drawn: str) -> str:
    if not workers:
        return "Nobody has voted yet."
    return drawn if not banned else f"{drawn} {'One is' if banned == 1 else f'{banned} are'} banned."


async def show_one(visit: PageRequest) -> Response:
    """Show one worker."""
    return await _page(visit, visit.identity())


async def _page(visit: PageRequest, name: str, **more: Any) -> Response:
    campaign = visit.campaign
    view = await campaign.worker(name)
    number = campaign.number_of(name)
    votes = await campaign.read(lambda: _recent(campaign.state, number), 30 * MAX_RECENT_VOTES)
    gold = await campaign.read(lambda: gold_of(campaign.state, number), 2 * min(view.votes, MAX_READ_VOTES))
    names = campaign.state.names
    usual = None if view.recent is None or view.drift is None else view.recent - view.drift
    values = {
        "worker": view,
        "votes": list(reversed(votes))[:SHOWN_VOTES],
        "gold": gold,
        "confusion": None if view.confusion is None else pictures.confusion(view.confusion, names),
        "drift": None if usual is None else pictures.drift([vote.likely for vote in votes], usual),
        "sentence": _worker_sentence(view, gold),
        "changes": None,
        "preview": None,
    }
    return visit.board.pages.page("worker.html", visit, values | more)


def _worker_sentence(view: Any, gold: GoldRecord) -> str:
    from adjudge.report import words

    if view.banned:
        return f"Banned: {words.tally(view.votes, 'vote')} of theirs {'does' if view.votes == 1 else 'do'} not count."
    if view.probation:
        return "On probation: their votes do not count yet."
    if view.accuracy is None:
        return "Nothing is known of this worker yet."
    low, high = view.interval or (view.accuracy, view.accuracy)
    told = f"Right in {words.percent(view.accuracy)} of their votes, expected ({words.percent(low)} to {words.percent(high)})."
    return told if not gold.judged else f"{told} {gold.sentence}"


def _recent(state: CampaignState, number: int) -> list[RecentVote]:
    """Return a worker's votes on the tasks in memory that were touched last, oldest first."""
    worker = state.crowd.all.get(number)
    if worker is None:
        return []
    cast: Sequence[tuple[str, int]] = [*state.online.state.tasks_of(worker.text), *(worker.aside or {}).items()]
    known = [(task.touched, task, label) for name, label in cast[-MAX_READ_VOTES:] if (task := state.tasks.by_name.get(name))]
    known.sort(key=lambda row: row[0])
    found: list[RecentVote] = []
    for _, task, label in known[-MAX_RECENT_VOTES:]:
        answer = state.answer(task.name)
        decided = task.standing.label
        likely = answer[4][label] if answer[4] else 0.0
        found.append(
            RecentVote(
                task.name, state.names[label], state.names[decided] if decided >= 0 else None, task.standing.status, likely
            )
        )
    return found


async def judge(visit: PageRequest) -> Response:
    """Ban a worker or lift a ban: first as a preview, which lists what would change."""
    campaign, name, action = visit.campaign, visit.identity(), visit.text("action")
    note = visit.text("note") or None
    if campaign.names.number(name) is None:
        raise NotFound(f"worker {quote(name)} is unknown")
    changes: list[tuple[Decision, Decision]]
    if action in ("preview-ban", "preview-unban"):
        is_ban = action == "preview-ban"
        changes = await (campaign.ban([name], dry_run=True) if is_ban else campaign.unban([name], dry_run=True))
        more = {"changes": changes[:MAX_SHOWN_CHANGES], "changed": len(changes), "preview": "ban" if is_ban else "unban"}
        return await _page(visit, name, **more, note=note or "")
    if action == "ban":
        await campaign.ban([name], visit.name, note)
    elif action == "unban":
        await campaign.unban([name], visit.name)
    else:
        raise Invalid(f"action is {quote(action)}: give preview-ban, ban, preview-unban or unban")
    return redirect(visit.here("worker", id=name))
