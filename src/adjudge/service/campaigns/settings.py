"""How a campaign's stream is set, when it is fitted again, and how long tasks and votes are kept: small documents."""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeVar

import msgspec

from adjudge.errors import InputError

S = TypeVar("S", bound="_CampaignSettings")
MAX_SETTING: Final = (
    1_000_000_000  # votes, tasks or seconds: beyond it a number is a mistake, and a snapshot may have no room for it
)
DAYS: Final = 1_000_000
Count = Annotated[int, msgspec.Meta(ge=1, le=MAX_SETTING)]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=MAX_SETTING)]
Days = Annotated[float, msgspec.Meta(gt=0, le=DAYS)]
Seed = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]  # a snapshot keeps 64 bits


class _CampaignSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    @classmethod
    def of(cls: type[S], document: dict[str, Any]) -> S:
        """Return the settings that a document holds, after it was checked."""
        try:
            return msgspec.convert(document, cls)
        except msgspec.ValidationError as error:
            raise InputError(f"{cls.__name__.lower()}: {error}") from None

    def document(self) -> dict[str, Any]:
        """Return the settings as a document."""
        return msgspec.structs.asdict(self)


class StreamSettings(_CampaignSettings, frozen=True):
    """What the stream of a campaign may be made with; the values of the last two are checked by the stream."""

    seed: Seed = 0
    strength: Any = None
    confidence: Any = None


class RefitSettings(_CampaignSettings, frozen=True):
    """When the votes in memory are fitted as a batch, in the background."""

    votes: Count = 1000  # after this number of votes …
    share: Annotated[float, msgspec.Meta(ge=0, le=1)] = (
        0.1  # … and no fewer than this share of the votes in memory, so that refits stay a small part of the work
    )
    seconds: Seconds | None = None  # or after this time, if there was a vote


class Retention(_CampaignSettings, frozen=True):
    """How long tasks stay in memory, and votes at all.

    Tasks that leave memory are archived, and come back when they are touched.
    """

    tasks: Count = 100_000  # decided ones in memory: beyond it the ones untouched for longest leave
    waiting: Count = 1_000_000  # those not yet decided
    days: Days | None = None  # decided ones also leave after this time
    votes_days: Days | None = None  # votes are deleted after this time, decisions stay; None: never
