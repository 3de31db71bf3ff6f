"""The plot of a race: time against votes, a line for each contestant of Dawid-Skene's kind."""

import polars as pl

COLOURS = {"crowd-kit": "#d55e00", "peerannot": "#8a6d00", "snorkel": "#aa4499", "adjudge": "#0072b2"}  # of libraries
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3])  # of the methods of one library


def draw(cells, contestants, path):
    """Draw times over votes, both on logarithmic scales, as SVG; nothing where fewer than two sizes were raced."""
    if len({cell["votes"] for cell in cells}) < 2:
        return
    from adjudge.report.charts import alt, apply_theme, save_svg

    rows, looks, seen = [], {}, {}
    for one in contestants:
        lines = [(cell["votes"], cell["lines"].get(one.name, {})) for cell in cells]
        times = [(votes, line["seconds"]) for votes, line in lines if "seconds" in line]
        if not times:
            continue
        looks[one.name] = COLOURS[one.library], DASHES[seen.setdefault(one.library, 0) % len(DASHES)]
        seen[one.library] += 1
        rows += [(one.name, votes, seconds) for votes, seconds in times]
    points = pl.DataFrame(rows, ["contestant", "votes", "seconds"], orient="row")
    x = alt.X("votes:Q").title("votes").scale(type="log", nice=False, padding=12)
    x = x.axis(values=sorted({cell["votes"] for cell in cells}), format="~s")
    y = alt.Y("seconds:Q").title("seconds of a fit, 10 iterations").scale(type="log", nice=False, padding=12)
    y = y.axis(values=[10.0**power for power in range(-6, 4)], format="~g")
    names = list(looks)
    legend = alt.Legend(orient="right", symbolType="stroke", symbolStrokeWidth=2, symbolSize=400)
    colours, dashes = zip(*looks.values(), strict=True)
    colour = alt.Color("contestant:N").title(None).scale(domain=names, range=list(colours)).legend(legend)
    dash = alt.StrokeDash("contestant:N").title(None).scale(domain=names, range=list(dashes)).legend(legend)
    base = alt.Chart(points).encode(x, y, colour)
    lines = base.mark_line().encode(dash) + base.mark_circle(opacity=1, size=36)
    save_svg(apply_theme(lines.properties(width=480, height=360)), path)
