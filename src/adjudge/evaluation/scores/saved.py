"""A panel of judges in a file: a checksummed container of kind "scores"."""

from __future__ import annotations

from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from adjudge.data.vocabulary import Kind, Vocabulary
from adjudge.errors import itemize, quote
from adjudge.evaluation.scores.fit import JudgeFigures
from adjudge.evaluation.scores.panel import ScorePanel
from adjudge.evaluation.scores.truth import GoldScale
from adjudge.io import container
from adjudge.io.container import Array, Bounds, Types
from adjudge.io.frames import column
from adjudge.results.saved import ID_ARRAYS

PANEL_KIND: Final = "scores"
VERSION: Final = 1
NUMBER: Final = (float, int)
NUMBERS: Final = ("centre", "spread", "typical_noise", "bias_spread", "validity", "level")
PANEL_META: Final[Types] = {
    "worker_kind": str,
    "kind": str,
    "clip": list,
    "threshold": (*NUMBER, type(None)),
    "gold": (dict, type(None)),
    "label_line": (list, type(None)),
    "groups": dict,
    **dict.fromkeys(NUMBERS, NUMBER),
}
JUDGES: Final = tuple(one.name for one in fields(JudgeFigures))
PANEL_ARRAYS: Final = {
    "worker_ids": Array(None, ("ids",)),
    "worker_offsets": Array("<i8", ("offsets",)),
    **{name: Array("|b1" if name == "constant" else "<f8", ("judges",)) for name in JUDGES},
    "agreement": Array("<f8", ("judges",)),
    "compared": Array("<f8", ("judges",)),
    "judge_mean": Array("<f8", ("judges",), optional=True),
    "judge_sd": Array("<f8", ("judges",), optional=True),
}
KINDS: Final = ("factor", "means", "constant")
MAX_PARAMETER: Final = 1e300


def write_panel(path: Path, panel: ScorePanel) -> None:
    """Write a panel to one file, whole or not at all; the same content gives the same bytes."""
    meta: dict[str, Any] = {name: getattr(panel, name) for name in ("kind", "threshold", *NUMBERS)}
    meta |= {"worker_kind": panel.workers.kind, "groups": dict(panel.groups)}
    meta["clip"] = [float(end) if np.isfinite(end) else None for end in panel.clip]
    meta["gold"] = None if panel.gold is None else asdict(panel.gold)
    meta["label_line"] = None if panel.label_line is None else list(panel.label_line)
    arrays: dict[str, NDArray[Any]] = {"worker_ids": panel.workers.values, "worker_offsets": panel.workers.offsets}
    arrays |= {name: getattr(panel.judges, name) for name in JUDGES}
    arrays |= {name: getattr(panel, name) for name in ("agreement", "compared")}
    own = {"judge_mean": panel.judge_mean, "judge_sd": panel.judge_sd}
    container.save(path, PANEL_KIND, VERSION, meta, arrays | {name: array for name, array in own.items() if array is not None})


def read_panel(path: Path) -> ScorePanel:
    """Return the panel in a file; a damaged, forged or foreign file is an error."""
    meta, arrays = container.load(path, PANEL_KIND, VERSION, PANEL_META, PANEL_ARRAYS)
    bounds = Bounds(path)
    bounds.need(meta["kind"] in KINDS, f"it is of kind {quote(meta['kind'])}; known are {itemize(KINDS)}")
    for name in NUMBERS:
        bounds.within(name, np.array([meta[name]], np.float64), -MAX_PARAMETER, MAX_PARAMETER)
    bounds.need(meta["spread"] >= 0 and 0 < meta["validity"] <= 1 and 0 < meta["level"] < 1, "its figures are out of range")
    bounds.need(meta["kind"] != "factor" or (meta["spread"] > 0 and meta["typical_noise"] > 0), "its variances are not above 0")
    for name in ("bias", "slope", "noise", "bias_variance", "slope_variance", "count", "compared", "judge_mean"):
        finite = meta["kind"] == "factor" or name != "noise"
        if name in arrays and finite:
            bounds.within(name, arrays[name], -MAX_PARAMETER if name in ("bias", "slope", "judge_mean") else 0.0, MAX_PARAMETER)
    if meta["kind"] == "factor":
        bounds.need((arrays["noise"] > 0).all(), "a judge has no noise")
    bounds.need(("judge_mean" in arrays) == ("judge_sd" in arrays), "one of judge_mean and judge_sd is missing")
    if "judge_sd" in arrays:
        bounds.within("judge_sd", arrays["judge_sd"], 1e-300, MAX_PARAMETER)
    clip = meta["clip"]
    bounds.need(len(clip) == 2 and all(end is None or type(end) in NUMBER for end in clip), "clip is not two numbers")
    low, high = (sign * np.inf if end is None else float(end) for sign, end in zip((-1, 1), clip, strict=True))
    bounds.need(low <= high, "clip is not two rising numbers")
    gold, line = meta["gold"], meta["label_line"]
    if gold is not None:
        bounds.fields("gold", gold, dict.fromkeys(("start", "gain", "shared"), NUMBER) | {"gold": int})
    bounds.need(line is None or (len(line) == 2 and all(type(part) in NUMBER for part in line)), "label_line is not two numbers")
    groups = meta["groups"]
    bounds.need(all(isinstance(group, str) for group in groups.values()), "its groups are not text")
    return ScorePanel(
        workers=_workers(bounds, meta["worker_kind"], arrays),
        judges=JudgeFigures(**{name: arrays[name] for name in JUDGES}),
        agreement=arrays["agreement"],
        compared=arrays["compared"],
        clip=(float(low), float(high)),
        kind=meta["kind"],
        judge_mean=arrays.get("judge_mean"),
        judge_sd=arrays.get("judge_sd"),
        threshold=None if meta["threshold"] is None else float(meta["threshold"]),
        gold=None if gold is None else GoldScale(**{name: gold[name] for name in ("start", "gain", "shared", "gold")}),
        label_line=None if line is None else (float(line[0]), float(line[1])),
        groups=groups,
        **{name: float(meta[name]) for name in NUMBERS},
    )


def _workers(bounds: Bounds, kind: str, arrays: dict[str, NDArray[Any]]) -> Vocabulary:
    bounds.need(kind in ID_ARRAYS, f"its workers are of kind {quote(kind)}; known are {itemize(ID_ARRAYS)}")
    values, offsets = arrays["worker_ids"], arrays["worker_offsets"]
    bounds.arrays({"worker_ids": values, "worker_offsets": offsets}, ID_ARRAYS[kind])
    if kind == "string":
        bounds.texts("worker", offsets, values)
    workers = Vocabulary(cast(Kind, kind), values, offsets)
    bounds.need(len(workers) == len(arrays["bias"]), f"it has {len(arrays['bias'])} judges and names of {len(workers)}")
    bounds.need(column(workers).n_unique() == len(workers), "two of its workers have the same name")
    return workers
