"""The model of numeric scores once more, pass by pass over single scores in NumPy, as its description has it."""

import numpy as np


def fit(item, judge, y, group=None):
    """Return items and judges of scores, whose items and judges are codes from 0 on without gaps."""
    items, judges = item.max() + 1, judge.max() + 1
    of_item, of_judge = (lambda v: np.bincount(item, v, items)), (lambda v: np.bincount(judge, v, judges))
    k, n = np.bincount(item).astype(float), np.bincount(judge).astype(float)
    low, median, high = np.quantile(y, [0.1, 0.5, 0.9])
    robust = (high - low) / 2.563
    kept = np.clip(y, median - 6 * robust, median + 6 * robust)
    clipped, loc, unit = of_item(kept != y), kept.mean(), kept.std()
    z = (kept - loc) / unit
    x = of_item(z) / k
    within = min(max(((z - x[item]) ** 2).sum() / (len(z) - items), 1e-4), 1.0)
    spread, centre, u = max(1 - within, 0.05), 0.0, np.ones(len(z))
    mute = (of_judge(z * z) / n - (of_judge(z) / n) ** 2 < 1e-9) & (n >= 10)
    bias, slope, noise, slope_variance = np.zeros(judges), np.ones(judges), np.full(judges, within), np.zeros(judges)
    tau, omega, typical, lowest = 0.1 * within, 0.05, within, 1e-4 + 1e-3 * within
    weigh = np.minimum(n, 50) * ~mute
    for step in range(1, 51):
        before = x
        weight = u * (~mute / noise)[judge]
        v = 1 / (1 / spread + of_item(weight * (slope**2 + slope_variance)[judge]))
        x = centre + of_item(weight * slope[judge] * (z - centre - bias[judge])) * v
        centre = x.mean()
        spread = max(((x - centre) ** 2 + v).mean(), 1e-3)
        dx, vi = (x - centre)[item], v[item]
        design = np.array([[of_judge(u), of_judge(u * dx)], [of_judge(u * dx), of_judge(u * (dx**2 + vi))]])
        design[0, 0] += noise / tau
        design[1, 1] += noise / omega
        right = np.array([of_judge(u * (z - centre)), of_judge(u * (z - centre) * dx) + noise / omega])
        inverse = np.linalg.inv(design.transpose(2, 0, 1))
        bias, slope = np.einsum("jab,bj->aj", inverse, right)
        bias_variance, slope_variance = noise * inverse[:, 0, 0], noise * inverse[:, 1, 1]
        error = z - centre - bias[judge] - slope[judge] * dx
        noise = np.maximum((of_judge(u * (error**2 + slope[judge] ** 2 * vi)) + 10 * typical) / (n + 10), lowest)
        typical = np.exp((weigh * np.log(noise)).sum() / weigh.sum())
        tau = max((weigh * (bias**2 + bias_variance)).sum() / weigh.sum(), 1e-4)
        omega = np.clip((weigh * ((slope - 1) ** 2 + slope_variance)).sum() / weigh.sum(), 1e-3, 0.05)
        live = n * ~mute
        up, shift = (live * slope).sum() / live.sum(), (live * bias).sum() / live.sum()
        if up > 0.05:
            slope, slope_variance, spread, v, x = (
                slope / up,
                slope_variance / up**2,
                spread * up**2,
                v * up**2,
                centre + (x - centre) * up,
            )
        bias, centre, x = bias - shift, centre + shift, x + shift
        u = np.minimum(1, 9 * noise[judge] / np.maximum(error**2, 1e-24))
        if np.abs(x - before).max() / np.sqrt(spread) < 1e-3:
            break
    if group is not None:
        voices = np.unique(np.stack([item, group[judge]]), axis=1, return_inverse=True, return_counts=True)
        weight = u / voices[2][voices[1].ravel()] * (~mute / noise)[judge]
        v = 1 / (1 / spread + of_item(weight * (slope**2 + slope_variance)[judge]))
        x = centre + v * of_item(weight * slope[judge] * (z - centre - bias[judge]))
    own = np.where(mute[judge], 0, u / noise[judge])
    total = 1 / v[item]
    others = (total * (x - centre)[item] - own * slope[judge] * (z - centre - bias[judge])) / (
        total - own * (slope**2 + slope_variance)[judge]
    )
    agreement = [np.corrcoef(z[judge == j], others[judge == j])[0, 1] if not mute[j] else 0.0 for j in range(judges)]
    return {
        "score": x * unit + loc,
        "variance": v * unit**2,
        "clipped": clipped,
        "bias": bias * unit,
        "slope": np.where(mute, 0, slope),
        "noise": np.sqrt(noise) * unit,
        "constant": mute,
        "agreement": np.array(agreement),
        "passes": step,
        "spread": spread * unit**2,
    }
