#include "grades.hpp"

#include <cmath>
#include <vector>

#include "../threads.hpp"

namespace adjudge {
namespace {

constexpr int kMostSteps = 60, kMostHalvings = 40;
constexpr double kExact = 1e-15;  // a fit ends when a step promises no more than this per vote
constexpr double kNear = 1e-6;    // a step that gains less is accepted: its gain may be lost in rounding

// A judge: P(grade <= l | c) = sigma(g t_l - h m_c - b).
struct Judge {
    double g = kSharp, h = kSharp, b = 0.0;
    Judge moved(const double* step, double share) const {
        return {g + share * step[0], h + share * step[1], b + share * step[2]};
    }
    double log_prior() const {
        const double apart = h - g;
        return kSure * (std::log(g) - g / kSharp) - apart * apart / (2.0 * kStretchVariance) - b * b / (2.0 * kBiasVariance);
    }
};

// The objective, its slope by g, h and b, and minus its curvature: gg, gh, gb, hh, hb, bb.
struct Objective {
    double value = 0.0, slope[3] = {}, bend[6] = {};
};

// The votes of one judge: row[l] has those for grade l, by true grade; null if there are none.
struct Ballots {
    const double* const* row;
    int k;
    double votes, inner;  // total, and for grades between the lowest and the highest

    // A cut between two grades, with the votes below and above it, is a cell of a logistic regression: of n votes those
    // below have log sigma(x), those above log sigma(-x) = log sigma(x) - x, where x = g t - h m - b.
    Objective at(const Judge& judge) const {
        const double odds = 1.0 / std::expm1(judge.g), middle = (k - 1) / 2.0;
        double value = inner * std::log(-std::expm1(-judge.g)), sums[9] = {inner * odds, 0, 0, inner * odds * (1.0 + odds)};
        for (int l = 0; l + 1 < k; ++l) {
            const double *below = row[l], *above = row[l + 1], t = l - (k - 2) / 2.0;
            if (!below && !above) continue;
            double pull = 0.0, pull_m = 0.0, bend = 0.0, bend_m = 0.0, bend_mm = 0.0;
            for (int c = 0; c < k; ++c) {
                const double up = above ? above[c] : 0.0, n = (below ? below[c] : 0.0) + up;
                if (n == 0.0) continue;
                const double m = c - middle, x = judge.g * t - (judge.h * m + judge.b);
                const double small = std::exp(-std::fabs(x)), share = 1.0 / (1.0 + small);
                const double miss = x >= 0.0 ? small * share : share;  // sigma(-x)
                value += n * ((x < 0.0 ? x : 0.0) - std::log1p(small)) - up * x;
                const double by_x = n * miss - up, by_xx = n * small * share * share;
                pull += by_x;
                pull_m += by_x * m;
                bend += by_xx;
                bend_m += by_xx * m;
                bend_mm += by_xx * m * m;
            }
            const double more[9] = {pull * t, -pull_m, -pull, bend * t * t, -bend_m * t, -bend * t, bend_mm, bend_m, bend};
            for (int i = 0; i < 9; ++i) sums[i] += more[i];
        }
        Objective out;
        const double apart = judge.h - judge.g;
        out.value = value + judge.log_prior();
        for (int i = 0; i < 3; ++i) out.slope[i] = sums[i];
        for (int i = 0; i < 6; ++i) out.bend[i] = sums[3 + i];
        out.slope[0] += kSure * (1.0 / judge.g - 1.0 / kSharp) + apart / kStretchVariance;
        out.slope[1] -= apart / kStretchVariance;
        out.slope[2] -= judge.b / kBiasVariance;
        out.bend[0] += kSure / (judge.g * judge.g) + 1.0 / kStretchVariance;
        out.bend[1] -= 1.0 / kStretchVariance;
        out.bend[3] += 1.0 / kStretchVariance;
        out.bend[5] += 1.0 / kBiasVariance;
        return out;
    }
};

// step = bend^-1 slope, by Cholesky's method: the prior keeps the matrix positive. Returns slope . step.
double newton_step(const Objective& at, double* step) {
    const double* a = at.bend;
    const double l00 = std::sqrt(a[0]), l10 = a[1] / l00, l20 = a[2] / l00;
    const double l11 = std::sqrt(a[3] - l10 * l10), l21 = (a[4] - l20 * l10) / l11;
    const double l22 = std::sqrt(a[5] - l20 * l20 - l21 * l21);
    const double y0 = at.slope[0] / l00, y1 = (at.slope[1] - l10 * y0) / l11, y2 = (at.slope[2] - l20 * y0 - l21 * y1) / l22;
    step[2] = y2 / l22;
    step[1] = (y1 - l21 * step[2]) / l11;
    step[0] = (y0 - l10 * step[1] - l20 * step[2]) / l00;
    return at.slope[0] * step[0] + at.slope[1] * step[1] + at.slope[2] * step[2];
}

Judge fitted(const Ballots& ballots) {
    Judge judge;
    double step[3];
    Objective here = ballots.at(judge);
    for (int n = 0; n < kMostSteps; ++n) {
        const double promised = newton_step(here, step);
        double share = step[0] <= -0.9 * judge.g ? -0.9 * judge.g / step[0] : 1.0;  // g stays above 0
        Judge next = judge.moved(step, share);
        Objective there = ballots.at(next);
        const bool is_near = promised <= kNear;
        for (int halving = 0; !is_near && !(there.value >= here.value) && halving < kMostHalvings; ++halving) {
            share /= 2.0;
            next = judge.moved(step, share);
            there = ballots.at(next);
        }
        if (!is_near && !(there.value >= here.value)) break;
        judge = next;
        here = there;
        if (!(promised > kExact * (1.0 + ballots.votes))) break;
    }
    return judge;
}

}  // namespace

void fit_judges(const int32_t* given, const double* counts, const int64_t* worker_ptr, int64_t workers, int k,
                double* judges, int threads) {
    share_range(threads, workers, 64, [&](int64_t begin, int64_t end) {
        std::vector<const double*> row(size_t(k), nullptr);  // by grade: sums do not depend on the order of the rows
        for (int64_t w = begin; w < end; ++w) {
            Ballots ballots{row.data(), k, 0.0, 0.0};
            for (int64_t r = worker_ptr[w]; r < worker_ptr[w + 1]; ++r) row[size_t(given[r])] = counts + r * k;
            for (int l = 0; l < k; ++l) {
                double votes = 0.0;
                for (int c = 0; row[size_t(l)] && c < k; ++c) votes += row[size_t(l)][c];
                ballots.votes += votes;
                if (l > 0 && l + 1 < k) ballots.inner += votes;
            }
            const Judge judge = fitted(ballots);
            judges[w * 3] = judge.g;
            judges[w * 3 + 1] = judge.h;
            judges[w * 3 + 2] = judge.b;
            for (int64_t r = worker_ptr[w]; r < worker_ptr[w + 1]; ++r) row[size_t(given[r])] = nullptr;
        }
    });
}

}  // namespace adjudge
