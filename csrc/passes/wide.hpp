// Many labels: counts of which only the cells with votes are stored, and tables in parts. What a vote says of most labels
// follows from its worker and its given label alone, so a table needs no line for every row.
#pragma once

#include <cstddef>
#include <cstdint>

#include "../encode/growing.hpp"
#include "pass.hpp"

namespace adjudge {

// One part of a table. The line of a row has by_worker + by_given + by_row, at least `floor`, except for the cells of its own.
struct Wide {
    const double* by_worker = nullptr;    // [workers, k]
    const double* by_given = nullptr;     // [k given, k true]
    const double* by_row = nullptr;       // [rows], or null: 0
    const int64_t* row_worker = nullptr;  // [rows]
    const int32_t* row_label = nullptr;   // [rows] the given label
    const int64_t* own_ptr = nullptr;     // [rows + 1]
    const int32_t* own_label = nullptr;   // [cells] rising within a row
    const double* own = nullptr;          // [cells]
    const double* without = nullptr;      // [cells] the same with one vote less, or null
    double floor = 0.0;
};

// line OUT [k]: log-probabilities of a vote of this row by true label.
inline void wide_line(const Wide& w, int k, size_t row, double* line) {
    const double* const worker = w.by_worker + size_t(w.row_worker[row]) * size_t(k);
    const double* const given = w.by_given + size_t(w.row_label[row]) * size_t(k);
    kernels().add_lines(worker, given, w.by_row ? w.by_row[row] : 0.0, w.floor, k, false, line);
    for (int64_t i = w.own_ptr[row]; i < w.own_ptr[row + 1]; ++i) line[w.own_label[i]] = w.own[i];
}

// The log-probability of a vote of this row under one label, with the vote itself left out of the counts: 0 for a cell
// without votes, which no pass reads. Votes that were never counted have the cell of their line, IN [k].
inline double wide_without(const Wide& w, size_t row, int32_t label, const double* line) {
    if (!w.without) return line[label];
    for (int64_t i = w.own_ptr[row]; i < w.own_ptr[row + 1]; ++i)
        if (w.own_label[i] == label) return w.without[i];
    return 0.0;
}

// The hard labels of an E-step whose table is the mean of one or two parts. right IN/OUT [rows], or null: the probability of
// the votes' own label is added, in units of kAnswerUnit.
Sums wide_pass(const Pass& p, const Wide* parts, int number, int64_t* right, int threads);

// Cells with votes, by group and label.
struct Cells {
    Growing<int64_t> ptr;    // [groups + 1]
    Growing<int32_t> label;  // [cells] rising within a group
    Growing<double> count;   // [cells]
};
struct CellsIn {
    const int64_t* ptr;
    const int32_t* label;
    const double* count;
};

// Groups of items: those of group g are item[ptr[g]] .. item[ptr[g + 1] - 1].
struct Groups {
    const int64_t* ptr;  // [number + 1]
    const int32_t* item;
    int64_t number;
};

// The items of each group by label IN [items]; those whose label is below 0 are left out.
Cells count_cells(const Groups& groups, const int32_t* label, int threads);
// The sum of the cells of each group's items, over k labels.
Cells sum_cells(const Groups& groups, const CellsIn& of_item, int k, int threads);
// x times the cells of one plus y times those of the other: all cells that either has.
Cells merge_cells(const CellsIn& one, const CellsIn& other, int64_t groups, double x, double y, int threads);

// task OUT [votes]: the task of each vote, by row; ptr OUT [rows + 1].
void tasks_by_row(const int64_t* task_ptr, int64_t tasks, const uint32_t* row, int64_t rows, int64_t* ptr, int32_t* task);

}  // namespace adjudge
