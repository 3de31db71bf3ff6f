#include "honest.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "../prefetch.hpp"
#include "../threads.hpp"
#include "aligned.hpp"
#include "honest_lanes.hpp"
#include "pass.hpp"
#include "prepare.hpp"
#include "wide.hpp"

namespace adjudge {

using namespace baseline;

namespace {

constexpr int64_t kPieceVotes = 1 << 16;
constexpr int64_t kAhead = 16;  // votes whose row is fetched beforehand

// Tasks in pieces of about as many votes each, which depend on the votes alone: sums of pieces are added in their order.
std::vector<int64_t> pieces_of(const Labelled& v, int64_t piece = kPieceVotes) {
    const int64_t first = v.task_ptr[0], votes = v.task_ptr[v.tasks] - first;
    const int64_t n = std::max<int64_t>(votes / piece, 1);
    std::vector<int64_t> begin{0};
    for (int64_t i = 1; i < n; ++i)
        begin.push_back(std::lower_bound(v.task_ptr, v.task_ptr + v.tasks, first + votes / n * i) - v.task_ptr);
    begin.push_back(v.tasks);
    return begin;
}

// Votes in a piece of work whose sums may be added in any order: fewer where they say something of many labels.
int64_t piece_votes(int k) { return std::max<int64_t>(kPieceVotes * 16 / std::max(k, 16), 256); }

// What a vote of this row says of every label, [k], and OUT own: of the label that its task has. room [k] may hold the line.
inline const double* line_of(const Honest& h, int k, size_t row, int32_t label, double* room, double* own) {
    if (h.wide) {
        wide_line(*h.wide, k, row, room);
        *own = wide_without(*h.wide, row, label, room);
        return room;
    }
    *own = h.without[row * size_t(h.stride) + size_t(label)];
    return h.lines + row * size_t(h.stride);
}

// What a vote says of a task with this label: OUT line [k].
inline void vote_line(const Honest& h, int k, size_t row, int32_t given, int32_t label, double* line) {
    double own;
    const double* all = line_of(h, k, row, label, line, &own);
    double best = own;
    for (int c = 0; c < k; ++c) {
        const double x = c == label ? own : all[c];
        best = x > best ? x : best;
        line[c] = x;
    }
    line[given] = best;  // no vote speaks against what it says
}

// How many votes a task has: the sum of their weights.
inline double size_of(const Labelled& v, int64_t t) {
    const int64_t first = v.task_ptr[t], last = v.task_ptr[t + 1];
    if (!v.row_weight) return double(last - first);
    double size = 0.0;
    for (int64_t i = first; i < last; ++i) size += v.row_weight[v.row[i]];
    return size;
}

// The scores of one task: OUT [k]; adds its votes by label to shown [k], unless that is null. room [k].
template <bool Weighted>
void scores_of(const Labelled& v, const Honest& h, int64_t t, double* scores, double* shown, double* room) {
    const int k = v.k;
    const int32_t label = v.labels[t];
    const int64_t end = v.task_ptr[v.tasks];
    std::copy(h.log_prior, h.log_prior + k, scores);
    for (int64_t i = v.task_ptr[t]; i < v.task_ptr[t + 1]; ++i) {
        if (!h.wide && i + kAhead < end) {
            const size_t next = size_t(v.row[i + kAhead]) * size_t(h.stride);
            prefetch(h.lines + next);
            prefetch(h.without + next);
        }
        const size_t row = v.row[i];
        double own;
        const double* line = line_of(h, k, row, label, room, &own);
        const int32_t given = v.row_label[row];
        double best = own;
        if (h.wide) {
            room[label] = own;
            best = kernels().largest(room, k);
            for (int c = 0; c < k; ++c) scores[c] += room[c];
        } else {
            for (int c = 0; c < k; ++c) {
                const double x = c == label ? own : line[c];
                best = x > best ? x : best;
                scores[c] += x;
            }
        }
        scores[given] += best - (given == label ? own : line[given]);
        if (shown) shown[given] += Weighted ? v.row_weight[row] : 1.0;
    }
}

// Scores to probabilities of the labels that exist, in place.
inline void soften(const Honest& h, int k, double cold, double* scores) {
    double best = -std::numeric_limits<double>::infinity();
    for (int c = 0; c < k; ++c)
        if (h.uniform[c] > 0.0 && scores[c] > best) best = scores[c];
    double total = 0.0;
    for (int c = 0; c < k; ++c) scores[c] = h.uniform[c] > 0.0 ? (scores[c] - best) * cold : -std::numeric_limits<double>::infinity();
    if (k >= 8) kernels().exps(scores, k);
    else
        for (int c = 0; c < k; ++c) scores[c] = std::exp(scores[c]);
    for (int c = 0; c < k; ++c) total += scores[c];
    for (int c = 0; c < k; ++c) scores[c] /= total;
}

inline void mix(const Honest& h, int k, double size, double* scores, const double* shown) {
    soften(h, k, coldness(h, size), scores);
    for (int c = 0; c < k; ++c) scores[c] = (1.0 - kVoteShare) * scores[c] + kVoteShare * shown[c] / (size + 1.0);
}

// One task: OUT scores [k] honest probabilities before the last step; shown and room [k].
template <bool Weighted>
void probabilities_of(const Labelled& v, const Honest& h, int64_t t, double* scores, double* shown, double* room) {
    const int k = v.k;
    std::copy(h.uniform, h.uniform + k, shown);
    scores_of<Weighted>(v, h, t, scores, shown, room);
    mix(h, k, Weighted ? size_of(v, t) : double(v.task_ptr[t + 1] - v.task_ptr[t]), scores, shown);
}

}  // namespace

void honest_mix(const Honest& h, int k, double size, double* scores, const double* shown) { mix(h, k, size, scores, shown); }

LastStep last_step(const double* p, int k, int label) {
    double best = 0.0, total = 0.0;
    for (int c = 0; c < k; ++c) {
        best = p[c] > best ? p[c] : best;
        total += p[c];
    }
    int near = 0;
    for (int c = 0; c < k; ++c) near += p[c] >= best - kNear;
    return {near > 1, best, total + (best - p[label])};
}

namespace {

// The votes for each label so far: whole numbers, which are faster to add, unless votes have weights.
template <bool Weighted>
using Shown = std::conditional_t<Weighted, double, int64_t>;

// Where the values of a row's votes are, and the label of the row. Those of a worker are fewer, and so are nearer than those of
// its rows; worker and label of a row are one number.
struct ByRow {
    const int32_t* row_label;

    int64_t at(size_t row) const { return int64_t(row); }
    int32_t label(size_t row) const { return row_label[row]; }
    void ahead(size_t row) const { prefetch(row_label + row); }
};
template <class Code>
struct ByWorker {
    const Code* code;  // [rows] the worker, then `bits` of the label
    int bits;

    int64_t at(size_t row) const { return int64_t(code[row] >> bits); }
    int32_t label(size_t row) const { return int32_t(code[row] & ((Code(1) << bits) - 1)); }
    void ahead(size_t row) const { prefetch(code + row); }
};

// The sums of some tasks: OUT [Q + 2], added to. values IN [n, 2, Q], so that a vote touches one line; shown [k] zero.
template <int Q, bool Weighted, class Rows>
void pairs_of(const Labelled& v, const Rows& rows, const double* values, int64_t begin, int64_t end, Shown<Weighted>* shown,
              double* out) {
    const int64_t votes = v.task_ptr[v.tasks];
    for (int64_t t = begin; t < end; ++t) {
        const int64_t first = v.task_ptr[t], last = v.task_ptr[t + 1];
        const int32_t label = v.labels[t];
        double x[Q] = {}, squares[Q] = {};
        Shown<Weighted> alike = 0;
        double size = double(last - first), alone = size;  // what all pairs are less than size x size: a vote with itself
        if constexpr (Weighted) size = alone = 0.0;
        for (int64_t i = first; i < last; ++i) {
            if (i + 2 * kAhead < votes) {
                rows.ahead(v.row[i + 2 * kAhead]);
                prefetch(values + rows.at(v.row[i + kAhead]) * 2 * Q);
            }
            const size_t row = v.row[i];
            const int32_t given = rows.label(row);
            if constexpr (Weighted) {
                const double weight = v.row_weight[row];
                alike += shown[given] * weight;
                shown[given] += weight;
                size += weight;
                alone += weight * weight;
            } else {
                alike += shown[given]++;
            }
            const double* value = values + (rows.at(row) * 2 + int64_t(given == label)) * Q;
            for (int q = 0; q < Q; ++q) {
                x[q] += value[q];
                squares[q] += value[q] * value[q];
            }
        }
        for (int64_t i = first; i < last; ++i) shown[rows.label(v.row[i])] = 0;
        for (int q = 0; q < Q; ++q) out[q] += x[q] * x[q] - squares[q];
        out[Q] += 2.0 * double(alike);
        out[Q + 1] += size * size - alone;
    }
}

template <int Q, bool Weighted, class Rows>
void add_pairs(const Labelled& v, const Rows& rows, const double* values, int64_t n, double* out, int threads) {
    const std::vector<int64_t> begin = pieces_of(v);
    const int64_t pieces = int64_t(begin.size()) - 1;
    std::vector<double> sums(size_t(pieces) * (Q + 2));
    const Aligned<double> lines = allocate<double>(size_t(n) * 2 * Q);
    share_range(threads, n, 1 << 13, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i)
            for (int equal = 0; equal < 2; ++equal)
                for (int q = 0; q < Q; ++q) lines[size_t((i * 2 + equal) * Q + q)] = values[(2 * q + equal) * n + i];
    });
    share_out(threads, pieces, [&](int, int64_t piece) {
        std::vector<Shown<Weighted>> shown(static_cast<size_t>(v.k));
        double mine[Q + 2] = {};
        pairs_of<Q, Weighted>(v, rows, lines.get(), begin[size_t(piece)], begin[size_t(piece) + 1], shown.data(), mine);
        std::copy(mine, mine + Q + 2, sums.begin() + piece * (Q + 2));
    });
    std::fill(out, out + Q + 2, 0.0);
    for (int64_t piece = 0; piece < pieces; ++piece)
        for (size_t q = 0; q < Q + 2; ++q) out[q] += sums[size_t(piece) * (Q + 2) + q];
}

template <bool Weighted, class Rows>
void add_all_pairs(const Labelled& v, const Rows& rows, const double* values, int64_t n, int quantities, double* out, int threads) {
    switch (quantities) {
        case 1: return add_pairs<1, Weighted>(v, rows, values, n, out, threads);
        case 2: return add_pairs<2, Weighted>(v, rows, values, n, out, threads);
        default: throw std::invalid_argument("pairs of votes have one quantity or two");
    }
}

template <class Code>
void add_pairs_by_worker(const Labelled& v, const int64_t* worker_ptr, int64_t workers, int bits, const double* values,
                         int quantities, double* out, int threads) {
    const Aligned<Code> code = allocate<Code>(size_t(v.rows));
    share_range(threads, workers, 1 << 13, [&](int64_t first, int64_t last) {
        for (int64_t w = first; w < last; ++w)
            for (int64_t r = worker_ptr[w]; r < worker_ptr[w + 1]; ++r) code[size_t(r)] = Code(w) << bits | Code(v.row_label[r]);
    });
    add_all_pairs<false>(v, ByWorker<Code>{code.get(), bits}, values, workers, quantities, out, threads);
}

}  // namespace

void pair_sums(const Labelled& v, const double* values, int quantities, const int64_t* worker_ptr, int64_t workers, double* out,
               int threads) {
    if (!worker_ptr) {
        const ByRow rows{v.row_label};
        return v.row_weight ? add_all_pairs<true>(v, rows, values, v.rows, quantities, out, threads)
                            : add_all_pairs<false>(v, rows, values, v.rows, quantities, out, threads);
    }
    int bits = 0;
    while (v.k > 1 << bits) ++bits;
    return workers < int64_t(1) << (32 - bits)
               ? add_pairs_by_worker<uint32_t>(v, worker_ptr, workers, bits, values, quantities, out, threads)
               : add_pairs_by_worker<uint64_t>(v, worker_ptr, workers, bits, values, quantities, out, threads);
}

namespace {

// Any number of labels.
template <bool Weighted>
void judge(const Labelled& v, const Honest& h, const HonestOut& out, int threads) {
    const std::vector<int64_t> begin = pieces_of(v, piece_votes(v.k));
    const int64_t pieces = int64_t(begin.size()) - 1;
    const bool alone = threads <= 1 || pieces == 1;
    const size_t k = size_t(v.k);
    share_out(threads, pieces, [&](int, int64_t piece) {
        std::vector<double> room(3 * k);
        double* const p = room.data();
        for (int64_t t = begin[size_t(piece)]; t < begin[size_t(piece) + 1]; ++t) {
            probabilities_of<Weighted>(v, h, t, p, p + k, p + 2 * k);
            judge_one(v, out, t, p, last_step(p, int(k), v.labels[t]), alone);
        }
    });
}

// Both lines of every row side by side, [rows, 2, lanes], padded with minus infinity.
Aligned<double> side_by_side(const Labelled& v, const Honest& h, int lanes, int threads) {
    Aligned<double> both = allocate<double>(size_t(v.rows) * 2 * size_t(lanes));
    share_range(threads, v.rows, 1 << 13, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
            pad_line(h.lines + r * h.stride, v.k, lanes, both.get() + r * 2 * lanes);
            pad_line(h.without + r * h.stride, v.k, lanes, both.get() + (r * 2 + 1) * lanes);
        }
    });
    return both;
}

// Up to 16 labels.
void judge_lanes(const Labelled& v, const Honest& h, const HonestOut& out, int lanes, int threads) {
    const std::vector<int64_t> begin = pieces_of(v);
    const int64_t pieces = int64_t(begin.size()) - 1;
    const bool alone = threads <= 1 || pieces == 1, are_beside = v.k == lanes && h.stride == 2 * lanes && h.without == h.lines + lanes;
    const double* both = are_beside ? h.lines : nullptr;
    Aligned<double> copies;
    // They cost more than they save where there are fewer votes than rows.
    if (!both && v.task_ptr[v.tasks] - v.task_ptr[0] >= v.rows) {
        copies = side_by_side(v, h, lanes, threads);
        both = copies.get();
    }
    share_out(threads, pieces, [&](int, int64_t piece) {
        kernels().honest(v, h, both, lanes, out, begin[size_t(piece)], begin[size_t(piece) + 1], alone);
    });
}

}  // namespace

void honest_pass(const Labelled& v, const Honest& h, const HonestOut& out, int threads) {
    const int lanes = lanes_for(v.k);
    if (lanes) judge_lanes(v, h, out, lanes, threads);
    else if (v.row_weight) judge<true>(v, h, out, threads);
    else judge<false>(v, h, out, threads);
}

void below_chance(const Labelled& v, const Honest& h, const Workers& w, double unit, int64_t* sums, int threads) {
    const std::vector<int64_t> begin = pieces_of(v, piece_votes(v.k));
    const int64_t pieces = int64_t(begin.size()) - 1;
    const bool alone = threads <= 1 || pieces == 1;
    const size_t k = size_t(v.k), rows = size_t(v.rows);
    int64_t *const votes = sums, *const got = sums + rows, *const mean = got + rows, *const square = mean + rows;
    share_out(threads, pieces, [&](int, int64_t piece) {
        std::vector<double> room(2 * k);
        double *const scores = room.data(), *const p = scores + k;
        for (int64_t t = begin[size_t(piece)]; t < begin[size_t(piece) + 1]; ++t) {
            if (v.task_ptr[t + 1] - v.task_ptr[t] < 2) continue;
            const double cold = coldness(h, size_of(v, t));
            scores_of<false>(v, h, t, scores, nullptr, p);  // lines have their weight already
            for (int64_t i = v.task_ptr[t]; i < v.task_ptr[t + 1]; ++i) {
                const size_t row = v.row[i];
                const int32_t given = v.row_label[row];
                vote_line(h, v.k, row, given, v.labels[t], p);
                for (size_t c = 0; c < k; ++c) p[c] = scores[c] - p[c];  // the task without the vote
                soften(h, v.k, cold, p);
                add_units(votes + row, 1, alone);
                add_units(got + row, std::llrint(p[given] / unit), alone);
                const int64_t worker = w.row_worker[row];
                for (int64_t r = w.worker_ptr[worker]; r < w.worker_ptr[worker + 1]; ++r) {
                    const double x = p[v.row_label[r]];
                    add_units(mean + r, std::llrint(x / unit), alone);
                    add_units(square + r, std::llrint(x * x / unit), alone);
                }
            }
        }
    });
}

}  // namespace adjudge
