"""Who is faster: the sentence that sums a race up, and the exceptions that it names."""

from contestants import PEERS, ours_of


def exceptions(cells, framed=False):
    """(peer, cell, its seconds, ours) wherever a peer was as fast as ours that does the same, or ours gave no answer.

    - `cells`: [{"name", "lines": {contestant: line}}], as a race stores them.
    - `framed`: whether ours is charged for encoding a frame and for the frame of its labels, as peers that take one are.
    """
    out = []
    for cell in cells:
        for peer in PEERS:
            rival = ours_of(peer, framed)
            theirs = cell["lines"].get(peer.name, {}).get("seconds")
            if theirs is None or rival is None or (framed and not peer.takes_frame):
                continue  # one that was stopped or not run was no faster than ours
            ours = cell["lines"].get(rival, {}).get("seconds")
            if ours is None or ours >= theirs:
                out.append((peer.name, cell["name"], theirs, ours))
    return out


def unanswered(cells):
    """(ours, cell, why) wherever one of ours that has a rival gave no answer."""
    wanted = dict.fromkeys(ours_of(peer) for peer in PEERS)
    return [
        (name, cell["name"], cell["lines"].get(name, {}).get("why", "not asked"))
        for cell in cells
        for name in wanted
        if "seconds" not in cell["lines"].get(name, {})
    ]


def sentence(cells):
    """The summary, as Markdown."""
    missing = unanswered(cells)
    native = f"Faster than every peer at every size and label count ({len(cells)} cells), votes in native form"
    native = _said(native, exceptions(cells), missing)
    framed = exceptions(cells, framed=True)
    return native + "\n\n" + _said("Faster than those that take a frame, from a frame to a frame of labels", framed, ())


def _said(what, found, missing):
    if not found and not missing:
        return f"{what}: **yes**."
    named = [f"{peer} on {cell} ({pair(theirs, ours)})" for peer, cell, theirs, ours in found]
    named += [f"{name} on {cell} gave no answer ({why})" for name, cell, why in missing]
    return f"{what}: **no**, exceptions: {'; '.join(named)}."


def pair(theirs, ours):
    """Two times, for comparison."""
    return f"{seconds(theirs)} against {'none' if ours is None else seconds(ours)}"


def seconds(value):
    """Seconds for people: three digits of s, ms or µs."""
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if value >= unit or name == "µs":
            return f"{value / unit:#.3g}".rstrip(".") + f" {name}"
    raise AssertionError
