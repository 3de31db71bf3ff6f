"""What benchmarks/gpu.py writes of its figures: the page benchmarks/measured/gpu, a picture, and a table in docs/gpu.md."""

from pathlib import Path

from pages import replaced  # in benchmarks/race, which importers of this module have on the path
from tables import markdown

from adjudge.io.write import write_aside

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "benchmarks" / "measured" / "gpu" / "README.md"
GUIDE = ROOT / "docs" / "gpu.md"
FULL = 10**9  # votes, of which milliseconds were wanted
WANTED = {  # milliseconds of a pass over so many votes, by workers
    20_000: {"hard, changes counted": 6.0, "hard, everything counted": 9.0, "soft": 12.0},
    1_000_000: {"hard, changes counted": 8.5, "hard, everything counted": 18.0, "soft": 30.0},
}
SHOWN = ("hard, changes counted", "hard, everything counted", "hard, with likelihood", "soft", "majority vote", "m-step", "last")
MODELS = {
    "mv": "`mv`",
    "fds": "`fds`",
    "fds full": "`fds`, likelihood in every pass",
    "ds": "`ds`",
    "auto": "`auto`",
    "auto honest": "`auto`, honest",
    "glad": "`glad`",
}
DEVICE, FLOOR = "device", "floor"
COLOURS = {DEVICE: "#0072b2", FLOOR: "#4a515c"}
OF_THREADS = ("#d55e00", "#9a6a00", "#00835f")  # from the most threads to the fewest
NONE, ABSENT = "–", "Not measured in this run."
IN_GUIDE = ("fds", "ds", "auto honest")
VOTES = "datum.value >= 1e9 ? datum.value / 1e9 + ' billion' : datum.value / 1e6 + ' million'"  # as `count`, in Vega


def figure(value):
    """A number with the digits that mean something.

    >>> figure(0.01203), figure(4.149), figure(87.27), figure(873.4)
    ('0.012', '4.1', '87.3', '873')
    """
    return f"{value:.2g}" if value < 1 else f"{value:.1f}" if value < 100 else f"{value:,.0f}".replace(",", "\u2009")


def count(votes):
    """A number of votes or workers in words.

    >>> count(10**9), count(20_000_000), count(20_000)
    ('1 billion', '20 million', '20 thousand')
    """
    for size, word in ((10**9, "billion"), (10**6, "million"), (10**3, "thousand")):
        if votes >= size:
            return f"{votes / size:g} {word}"
    return f"{votes:g}"


def threads_of(lines):
    """The names of measurements on the processor ("16 threads"), the most threads first."""
    names = {name for line in lines for name in line if name.endswith(" threads")}
    return sorted(names, key=lambda name: -int(name.split()[0]))


def passes_table(lines):
    """Passes at the largest size: milliseconds for each number of workers, the bar and the floor."""
    if not lines:
        return ABSENT
    votes = max(line["votes"] for line in lines)
    here = [line for line in lines if line["votes"] == votes]
    head, columns = [f"{count(votes)} votes, ms"], []
    for line in here:
        head.append(f"{count(line['workers'])} workers")
        columns.append({name: figure(value) for name, value in line["cuda"].items()})
        wanted = WANTED.get(line["workers"], {}) if votes == FULL else {}
        if wanted:
            head.append("wanted")
            columns.append({name: f"{value:g}" for name, value in wanted.items()})
        head.append("times the floor")
        columns.append({name: figure(value / line["floor"]) for name, value in line["cuda"].items() if name != "m-step"})
    rows = [[name, *(column.get(name, NONE) for column in columns)] for name in SHOWN if name in here[0]["cuda"]]
    return markdown(head, rows) + f"\n\nThe floor is {figure(here[0]['floor'])} ms."


def ratios_table(lines):
    """How many times as fast as the processor a device is, by size: a table for each number of threads."""
    out = []
    for name in threads_of(lines):
        some = [line for line in lines if name in line]
        rows = [[each, *(_ratio(line, name, each) for line in some)] for each in SHOWN]
        rows = [row for row in rows if set(row[1:]) != {NONE}]
        out.append(markdown([f"times as fast as {name}", *(f"{count(line['votes'])} votes" for line in some)], rows))
    return "\n\n".join(out) or ABSENT


def _ratio(line, name, each):
    there, here = line["cuda"].get(each), line[name].get(each)
    return NONE if there is None or here is None else figure(here / there)


def fits_table(lines):
    """Whole fits by size: milliseconds, with the iterations of the device's."""
    if not lines:
        return ABSENT
    names = ["cuda", "cuda, votes of the host", *threads_of(lines)]
    rows = []
    for line in lines:
        for model, title in MODELS.items():
            found = [line.get(name, {}).get(model) for name in names]
            if any(found):
                iterations = next(one for one in found if one)[1]
                rows.append([count(line["votes"]), title, iterations, *(figure(one[0]) if one else NONE for one in found)])
    head = ["votes", "model", "iterations", "votes on the device, ms", "copied there before, ms"]
    return markdown([*head, *(f"{name}, ms" for name in threads_of(lines))], rows)


def encoding_table(found):
    """Seconds of encoding columns that are on the device."""
    if not found["encoding"]:
        return ABSENT
    votes = max((line["votes"] for line in found["passes"]), default=0)
    rows = [
        [kind.replace("far apart", "all over 64 bits"), figure(1e3 * seconds), figure(votes / seconds / 1e6)]
        for kind, seconds in found["encoding"].items()
    ]
    return markdown([f"ids, {count(votes)} votes", "ms", "million votes per second"], rows)


def short_block(found):
    """The table in docs/gpu.md: whole fits at the largest size, and at the largest that the processor was measured at, too."""
    if not found["fits"]:
        return ABSENT
    by_size = {line["votes"]: line for line in found["fits"]}
    beside = max((votes for votes, line in by_size.items() if threads_of([line])), default=None)
    columns = [(max(by_size), "cuda")]
    if beside is not None:
        names = ["cuda"] if beside != max(by_size) else []
        columns += [(beside, name) for name in (*names, *threads_of([by_size[beside]]))]
    head = ["whole fit", *(f"{count(votes)}, {'device' if name == 'cuda' else name}" for votes, name in columns)]
    models = [model for model in IN_GUIDE if model in by_size[max(by_size)]["cuda"]]
    rows = [[MODELS[model], *(_short(by_size[votes], name, model) for votes, name in columns)] for model in models]
    about = (
        f"Encoded votes on one {found['device']}, compared with the processor of its machine "
        "([figures](../benchmarks/measured/gpu/README.md)):"
    )
    return about + "\n\n" + markdown(head, rows)


def _short(line, name, model):
    found = line.get(name, {}).get(model)
    return NONE if found is None else f"{figure(found[0])} ms" if found[0] < 1e3 else f"{figure(found[0] / 1e3)} s"


def blocks(found):
    """{marker: Markdown} of the page."""
    about = f"{found['device']}, which copies {found['bandwidth'] / 1e12:.2f} TB per second; {found['machine']}."
    return {
        "machine": about,
        "passes": passes_table(found["passes"]),
        "ratios": ratios_table(found["passes"]),
        "fits": fits_table(found["fits"]),
        "encoding": encoding_table(found),
    }


def points_of_passes(lines, each):
    """(curve, votes, nanoseconds per vote) of one kind of pass, over 20 thousand workers."""
    rows = []
    for line in lines:
        if line["workers"] == min(one["workers"] for one in lines):
            rows.append((FLOOR, line["votes"], line["floor"]))
            rows += [(name, line["votes"], line[name][each]) for name in threads_of([line]) if each in line[name]]
            rows.append((DEVICE, line["votes"], line["cuda"][each]))
    return [(curve, votes, 1e6 * ms / votes) for curve, votes, ms in rows]


def points_of_fits(lines, model):
    """(curve, votes, nanoseconds per vote) of whole fits of a model."""
    rows = []
    for line in lines:
        names = {"cuda": DEVICE} | {name: name for name in threads_of([line])}
        rows += [(curve, line["votes"], line[name][model][0]) for name, curve in names.items() if model in line.get(name, {})]
    return [(curve, votes, 1e6 * ms / votes) for curve, votes, ms in rows]


def draw(found, path):
    """Draw nanoseconds per vote over votes, both on logarithmic scales: two kinds of passes, and below them two whole fits."""
    passes, fits = found["passes"], found["fits"]
    panels = {
        "hard pass, everything counted": points_of_passes(passes, "hard, everything counted"),
        "soft pass": points_of_passes(passes, "soft"),
        "whole fit of fds": points_of_fits(fits, "fds"),
        "whole fit of auto, honest": points_of_fits(fits, "auto honest"),
    }
    drawn = {title: rows for title, rows in panels.items() if rows}
    if not drawn:
        return
    from adjudge.report.charts import alt, apply_theme, save_svg

    names = [*threads_of([*passes, *fits])]
    colours = COLOURS | dict(zip(names, OF_THREADS * len(names), strict=False))
    there = {row[0] for rows in drawn.values() for row in rows}
    order = [name for name in (*reversed(names), DEVICE, FLOOR) if name in there]
    looks = [colours[name] for name in order]
    charts = [panel(alt, title, rows, order, looks) for title, rows in drawn.items()]
    lines = [alt.hconcat(*charts[at : at + 2]).resolve_scale(y="shared") for at in range(0, len(charts), 2)]
    save_svg(apply_theme(alt.vconcat(*lines)), path)


def panel(alt, title, rows, order, looks):
    """One panel of the picture."""
    import polars as pl

    points = pl.DataFrame(rows, ["curve", "votes", "each"], orient="row")
    x = alt.X("votes:Q").title("votes").scale(type="log", nice=False, padding=14)
    x = x.axis(values=sorted({row[1] for row in rows}), labelExpr=VOTES)
    y = alt.Y("each:Q").title("nanoseconds per vote").scale(type="log", nice=False, padding=12)
    y = y.axis(values=[10.0**power for power in range(-4, 5)], format="~r")
    colour = alt.Color("curve:N").title(None).scale(domain=order, range=looks).legend(orient="top", columns=len(order))
    shape = alt.Shape("curve:N").title(None).scale(domain=order).legend(orient="top", columns=len(order))
    base = alt.Chart(points).encode(x, y, colour)
    drawn = base.mark_line().encode(strokeDash=alt.condition(f"datum.curve === '{FLOOR}'", alt.value([4, 4]), alt.value([1, 0])))
    return (drawn + base.mark_point(opacity=1).encode(shape)).properties(width=320, height=240, title=title)


def write_page(found):
    """Write the tables of the page, the picture and the table in docs/scale.md."""
    text = PAGE.read_text()
    for name, block in blocks(found).items():
        text = replaced(text, name, block)
    draw(found, PAGE.with_name("passes.svg"))
    write_aside(PAGE, lambda aside: aside.write_text(text))
    short = replaced(GUIDE.read_text(), "gpu", short_block(found))
    write_aside(GUIDE, lambda aside: aside.write_text(short))
