"""The public data sets: where each file stands, at which commit, how large, with which checksum, and how to read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal
from urllib.parse import quote

Rule = Literal["worker_task_label", "task_label", "trec", "snow", "matrix", "lines", "worker_task_label_truth"]
COMMITS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "axelabels/CDM_BIAS": "68aaa11dd12638f79bb01a2ec49012fb43c2d5ec",
        "edwinrobots/bayesian_combination_tutorial2": "f98448e2e9a941463aa92f418eefd1f43bd5a637",
        "fmenat/PyLearningCrowds": "0edf617d0357a43b48dc53f10f4181ec0163d4db",
        "ipeirotis/Get-Another-Label": "9fe6c56a7a157dba1a12018f696bad56806125b7",
        "orchidproject/active-crowd-toolkit": "2c0c194e85ca126545bd830d811ec39151bdd448",
    }
)
HOST: Final = "https://raw.githubusercontent.com"


@dataclass(frozen=True)
class RawFile:
    """One public file, pinned to the byte."""

    repository: str  # OWNER/NAME
    path: str
    size: int  # bytes
    sha256: str
    rule: Rule  # how `convert` reads it

    @property
    def commit(self) -> str:
        """The full commit at which the file has this checksum."""
        return COMMITS[self.repository]

    @property
    def place(self) -> str:
        """Where the file stands on a mirror and among files placed by hand: OWNER/NAME/PATH."""
        return f"{self.repository}/{self.path}"

    def url(self, base: str | None = None) -> str:
        """Return where to fetch the file: from GitHub at its commit, or below a mirror's base as OWNER/NAME/PATH.

        >>> SETS["bm"].files[1].url("http://mirror/raw/")
        'http://mirror/raw/ipeirotis/Get-Another-Label/data/BarzanMozafari/evaluation.txt'
        """
        if base is not None:
            return f"{base.rstrip('/')}/{quote(self.place)}"
        return f"{HOST}/{self.repository}/{self.commit}/{quote(self.path)}"


@dataclass(frozen=True)
class PublicSet:
    """A data set and the files it is made of."""

    name: str
    about: str
    files: tuple[RawFile, ...]
    votes: int  # votes in the converted file
    in_paper: bool

    @property
    def size(self) -> int:
        """Bytes to fetch."""
        return sum(file.size for file in self.files)


_GAL: Final = "ipeirotis/Get-Another-Label"
_SNOW: Final = "edwinrobots/bayesian_combination_tutorial2"
_LABELME: Final = "fmenat/PyLearningCrowds"
_ACT: Final = "orchidproject/active-crowd-toolkit"


def _files(*files: tuple[str, str, int, str, Rule]) -> tuple[RawFile, ...]:
    return tuple(RawFile(*file) for file in files)


_ALL: Final = (
    PublicSet(
        "adult2",
        "adult content of pages, Ipeirotis et al.",
        _files(
            (
                _GAL,
                "data/AdultContent2/labels.txt",
                3592352,
                "9584f9d0eda4ede1bce503539c751179a32362240b92e55400f0e2ded8f7468c",
                "worker_task_label",
            ),
            (
                _GAL,
                "data/AdultContent2/gold.txt",
                62239,
                "7b2417f4f8568426767139400d827e0be303c7f6f82126bf58a8febeb33f3949",
                "task_label",
            ),
        ),
        votes=92721,
        in_paper=True,
    ),
    PublicSet(
        "bm",
        "sentiment of tweets, Mozafari et al.",
        _files(
            (
                _GAL,
                "data/BarzanMozafari/labels.txt",
                104022,
                "d82f0c9d0f221ca2fcd25c05f74228a9980cbe6dbaf959295da40784378cf1f9",
                "worker_task_label",
            ),
            (
                _GAL,
                "data/BarzanMozafari/evaluation.txt",
                5893,
                "4bcec34f1efca8607260fa14e39e22eb4b163b8779ede749c98b65346964ebc9",
                "task_label",
            ),
        ),
        votes=5000,
        in_paper=True,
    ),
    PublicSet(
        "trec2010",
        "relevance of documents, TREC 2010",
        _files(
            (
                "axelabels/CDM_BIAS",
                "trec-rf10-crowd/trec-rf10-data.txt",
                4103310,
                "ab501bd275bc1a4bc1d2e680ddf1234f15d25c90a841e5adc55c6c995d303016",
                "trec",
            ),
        ),
        votes=98453,
        in_paper=True,
    ),
    PublicSet(
        "rte",
        "textual entailment, Snow et al. 2008",
        _files(
            (
                _SNOW,
                "all_collected_data/rte.standardized.tsv",
                515468,
                "3187c5de59b9b9c596d490d25b5f5f108090a35cbdd10e81f21e6d1939d6ba79",
                "snow",
            ),
        ),
        votes=8000,
        in_paper=True,
    ),
    PublicSet(
        "snow_temp",
        "order of events, Snow et al. 2008",
        _files(
            (
                _SNOW,
                "all_collected_data/temp.standardized.tsv",
                302152,
                "7f74de9f36a0d3dfdc1f51e6433526abfc788c616d0c2d04a96206780ac74860",
                "snow",
            ),
        ),
        votes=4620,
        in_paper=False,
    ),
    PublicSet(
        "labelme",
        "scenes in images, Rodrigues et al.",
        _files(
            (
                _LABELME,
                "data/LabelMe/answers.txt",
                174453,
                "354c282e10835a59962494acb1d180fe997b65a0aa1e27f870cdb4ef51ef3e2b",
                "matrix",
            ),
            (
                _LABELME,
                "data/LabelMe/LabelMe_Z_train.txt",
                2000,
                "229556bdc5da327dd7d4e4154ba180969091c83f43cf8cbee3727131c5a062f6",
                "lines",
            ),
        ),
        votes=2547,
        in_paper=True,
    ),
    PublicSet(
        "sp",
        "sentiment of sentences, Rodrigues et al.",
        _files(
            (
                _ACT,
                "Data/SP.csv",
                655310,
                "a83cf48092dc61bbb8986fdb0c1a17f658ba8555bddffc9e9ca26b95d514236f",
                "worker_task_label_truth",
            ),
        ),
        votes=27746,
        in_paper=True,
    ),
    PublicSet(
        "zencrowd_in",
        "links between entities, Demartini et al.",
        _files(
            (
                _ACT,
                "Data/ZenCrowd_in.csv",
                846125,
                "c5eabf0b145ce04122a77e28e3d765045ba65c3b16edee2dc0c5106418e92f5a",
                "worker_task_label_truth",
            ),
        ),
        votes=11205,
        in_paper=False,
    ),
)
SETS: Final[Mapping[str, PublicSet]] = MappingProxyType({s.name: s for s in _ALL})
