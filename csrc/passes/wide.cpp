#include "wide.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

#include "../threads.hpp"
#include "honest.hpp"
#include "one_task.hpp"

namespace adjudge {
namespace {

constexpr int64_t kPieceCells = 1 << 19;  // votes x labels of a piece of work
constexpr int64_t kPieceGroups = 1 << 10;
constexpr double kVanishes = -40.0;  // exp of less adds nothing to a total in whole units

// Scores of one task: OUT [k]; sum [k] is room.
void score(const Pass& p, const Wide* parts, int number, int64_t task, double* scores, double* sum) {
    const int k = p.k;
    std::fill_n(sum, k, 0.0);
    for (int64_t v = p.task_ptr[task]; v < p.task_ptr[task + 1]; ++v)
        for (int n = 0; n < number; ++n) {
            const Wide& w = parts[n];
            const size_t row = p.row[v];
            const double* const worker = w.by_worker + size_t(w.row_worker[row]) * size_t(k);
            const double* const given = w.by_given + size_t(w.row_label[row]) * size_t(k);
            const double more = w.by_row ? w.by_row[row] : 0.0, floor = w.floor;
            kernels().add_lines(worker, given, more, floor, k, true, sum);
            // Whole units: what was added comes off again without a trace.
            for (int64_t i = w.own_ptr[row]; i < w.own_ptr[row + 1]; ++i) {
                const int32_t c = w.own_label[i];
                const double x = worker[c] + given[c] + more;
                sum[c] += w.own[i] - (x > floor ? x : floor);
            }
        }
    const double share = 1.0 / number;
    for (int c = 0; c < k; ++c) scores[c] = p.log_prior[c] + share * sum[c];
}

// What a piece of work on some groups gives.
struct Piece {
    std::vector<int64_t> end;  // of each group
    std::vector<int32_t> label;
    std::vector<double> count;

    void add(int32_t c, double votes) {
        label.push_back(c);
        count.push_back(votes);
    }
    void end_group() { end.push_back(int64_t(label.size())); }
};

// Runs work(begin, end, out) over pieces of the groups, and joins what they give in the order of the groups.
template <class Work>
Cells joined(int64_t groups, int threads, const Work& work) {
    const int64_t pieces = (groups + kPieceGroups - 1) / kPieceGroups;
    std::vector<Piece> part(static_cast<size_t>(pieces));
    share_out(threads, pieces, [&](int, int64_t piece) {
        Piece out;
        work(piece * kPieceGroups, std::min(groups, (piece + 1) * kPieceGroups), out);
        part[size_t(piece)] = std::move(out);
    });
    std::vector<size_t> start;
    size_t cells = 0;
    for (const Piece& some : part) {
        start.push_back(cells);
        cells += some.label.size();
    }
    Cells all{Growing<int64_t>(size_t(groups) + 1), Growing<int32_t>(cells), Growing<double>(cells)};
    all.ptr[0] = 0;
    share_out(threads, pieces, [&](int, int64_t piece) {
        Piece& some = part[size_t(piece)];
        const size_t before = start[size_t(piece)], group = size_t(piece * kPieceGroups) + 1;
        for (size_t i = 0; i < some.end.size(); ++i) all.ptr[group + i] = int64_t(before) + some.end[i];
        std::copy(some.label.begin(), some.label.end(), all.label.data() + before);
        std::copy(some.count.begin(), some.count.end(), all.count.data() + before);
        some = Piece();
    });
    return all;
}

}  // namespace

Sums wide_pass(const Pass& p, const Wide* parts, int number, int64_t* right, int threads) {
    using namespace baseline;
    const int64_t first = p.task_ptr[0], votes = p.task_ptr[p.tasks] - first;
    const int64_t pieces = std::clamp<int64_t>(votes * p.k / kPieceCells, 1, p.tasks);
    std::vector<int64_t> begin{0};
    for (int64_t i = 1; i < pieces; ++i)
        begin.push_back(std::lower_bound(p.task_ptr, p.task_ptr + p.tasks, first + votes / pieces * i) - p.task_ptr);
    begin.push_back(p.tasks);
    std::vector<Sums> sums(static_cast<size_t>(pieces));
    const double grid = kRounding * unit_below(p.k);
    const bool shares = p.likelihood || p.confidence || p.posterior || right;
    share_out(threads, pieces, [&](int, int64_t piece) {
        std::vector<double> room(2 * size_t(p.k));
        double *const scores = room.data(), *const sum = scores + p.k;
        Sums mine;
        for (int64_t t = begin[size_t(piece)]; t < begin[size_t(piece) + 1]; ++t) {
            score(p, parts, number, t, scores, sum);
            const double best = kernels().largest(scores, p.k);
            Decision d{0, false, true};
            if (best != kNever) d = decide(p, t, scores);
            mine.impossible += d.impossible;
            mine.changed += p.labels[t] != d.label;
            p.labels[t] = d.label;
            mine.classification += scores[d.label];
            if (p.tie) p.tie[t] = d.tied;
            if (!shares) continue;
            double total = 0.0;
            const bool all = p.posterior || right;
            for (int c = 0; c < p.k; ++c) {
                const double x = scores[c] - best;
                sum[c] = x > kVanishes || all ? std::exp(x) : 0.0;
                total += whole(sum[c], grid);
            }
            mine.log_likelihood += best + std::log(total);
            const double scale = 1.0 / total;
            if (p.confidence) p.confidence[t] = sum[d.label] * scale;
            if (p.posterior)
                for (int c = 0; c < p.k; ++c) p.posterior[t * p.k + c] = sum[c] * scale;
            for (int64_t v = p.task_ptr[t]; right && v < p.task_ptr[t + 1]; ++v) {
                const int64_t units = std::llrint(sum[parts[0].row_label[p.row[v]]] * scale / kAnswerUnit);
                reinterpret_cast<std::atomic<int64_t>*>(right + p.row[v])->fetch_add(units, std::memory_order_relaxed);
            }
        }
        sums[size_t(piece)] = mine;
    });
    Sums all;
    for (const Sums& some : sums) all += some;
    return all;
}

Cells count_cells(const Groups& groups, const int32_t* label, int threads) {
    return joined(groups.number, threads, [&](int64_t begin, int64_t end, Piece& out) {
        std::vector<int32_t> seen;
        for (int64_t g = begin; g < end; ++g) {
            seen.clear();
            for (int64_t i = groups.ptr[g]; i < groups.ptr[g + 1]; ++i)
                if (label[groups.item[i]] >= 0) seen.push_back(label[groups.item[i]]);
            std::sort(seen.begin(), seen.end());
            for (size_t i = 0, next; i < seen.size(); i = next) {
                for (next = i + 1; next < seen.size() && seen[next] == seen[i];) ++next;
                out.add(seen[i], double(next - i));
            }
            out.end_group();
        }
    });
}

Cells sum_cells(const Groups& groups, const CellsIn& of_item, int k, int threads) {
    return joined(groups.number, threads, [&](int64_t begin, int64_t end, Piece& out) {
        std::vector<double> sum(size_t(k), 0.0);
        std::vector<uint8_t> has(size_t(k), 0);
        std::vector<int32_t> seen;
        for (int64_t g = begin; g < end; ++g) {
            seen.clear();
            for (int64_t i = groups.ptr[g]; i < groups.ptr[g + 1]; ++i)
                for (int64_t j = of_item.ptr[groups.item[i]]; j < of_item.ptr[groups.item[i] + 1]; ++j) {
                    const size_t c = size_t(of_item.label[j]);
                    if (!has[c]) has[c] = 1, seen.push_back(int32_t(c));
                    sum[c] += of_item.count[j];
                }
            std::sort(seen.begin(), seen.end());
            for (int32_t c : seen) {
                out.add(c, sum[size_t(c)]);
                sum[size_t(c)] = 0.0;
                has[size_t(c)] = 0;
            }
            out.end_group();
        }
    });
}

Cells merge_cells(const CellsIn& one, const CellsIn& other, int64_t groups, double x, double y, int threads) {
    return joined(groups, threads, [&](int64_t begin, int64_t end, Piece& out) {
        for (int64_t g = begin; g < end; ++g) {
            int64_t i = one.ptr[g], j = other.ptr[g];
            const int64_t i_end = one.ptr[g + 1], j_end = other.ptr[g + 1];
            while (i < i_end || j < j_end) {
                const bool left = j == j_end || (i < i_end && one.label[i] <= other.label[j]);
                const bool both = left && j < j_end && i < i_end && one.label[i] == other.label[j];
                const int32_t label = left ? one.label[i] : other.label[j];
                const double a = left ? x * one.count[i++] : 0.0;
                const double b = both || !left ? y * other.count[j++] : 0.0;
                out.add(label, a + b);
            }
            out.end_group();
        }
    });
}

void tasks_by_row(const int64_t* task_ptr, int64_t tasks, const uint32_t* row, int64_t rows, int64_t* ptr, int32_t* task) {
    std::fill_n(ptr, rows + 1, int64_t(0));
    const int64_t first = task_ptr[0];
    for (int64_t v = first; v < task_ptr[tasks]; ++v) ++ptr[row[v] + 1];
    for (int64_t r = 0; r < rows; ++r) ptr[r + 1] += ptr[r];
    std::vector<int64_t> next(ptr, ptr + rows);
    for (int64_t t = 0; t < tasks; ++t)
        for (int64_t v = task_ptr[t]; v < task_ptr[t + 1]; ++v) task[next[row[v]]++] = int32_t(t);
}

}  // namespace adjudge
