// The Python face of counts of many labels: cells in compressed rows, checked before they are followed.
#include "bind_wide.hpp"

namespace nb = nanobind;
using namespace adjudge;

namespace {

using CellArrays = std::tuple<Array<int64_t>, Array<int32_t>, Array<double>>;
using CellsGiven = std::tuple<In<int64_t>, In<int32_t>, In<double>>;

CellArrays shown(Cells&& cells) {
    return {owned<int64_t>(std::move(cells.ptr)), owned<int32_t>(std::move(cells.label)), owned<double>(std::move(cells.count))};
}

Groups groups_of(const In<int64_t>& ptr, const In<int32_t>& item, size_t items) {
    require(ptr.size() >= 1, "ptr does not divide the items");
    check_cells(ptr, item, ptr.size() - 1, items);
    return {ptr.data(), item.data(), int64_t(ptr.size()) - 1};
}

CellsIn cells_of(const CellsGiven& given, size_t groups, size_t k) {
    const auto& [ptr, label, count] = given;
    check_cells(ptr, label, groups, k);
    require(count.size() == label.size(), "cells do not have one count each");
    return {ptr.data(), label.data(), count.data()};
}

CellArrays py_count_cells(In<int64_t> ptr, In<int32_t> item, In<int32_t> label, int threads) {
    const Groups groups = groups_of(ptr, item, label.size());
    Cells cells;
    {
        nb::gil_scoped_release release;
        cells = count_cells(groups, label.data(), threads);
    }
    return shown(std::move(cells));
}

CellArrays py_sum_cells(In<int64_t> ptr, In<int32_t> item, CellsGiven of_item, int k, int threads) {
    const size_t items = std::get<0>(of_item).size() - 1;
    const Groups groups = groups_of(ptr, item, items);
    const CellsIn cells = cells_of(of_item, items, size_t(k));
    Cells sums;
    {
        nb::gil_scoped_release release;
        sums = sum_cells(groups, cells, k, threads);
    }
    return shown(std::move(sums));
}

CellArrays py_merge_cells(CellsGiven one, CellsGiven other, int k, double x, double y, int threads) {
    require(std::get<0>(one).size() >= 1, "cells have no pointers");
    const size_t groups = std::get<0>(one).size() - 1;
    const CellsIn a = cells_of(one, groups, size_t(k)), b = cells_of(other, groups, size_t(k));
    Cells merged;
    {
        nb::gil_scoped_release release;
        merged = merge_cells(a, b, int64_t(groups), x, y, threads);
    }
    return shown(std::move(merged));
}

void py_tasks_by_row(In<int64_t> task_ptr, In<uint32_t> row, Out<int64_t> ptr, Out<int32_t> task) {
    require(task_ptr.size() >= 1 && ptr.size() >= 1, "there are no pointers");
    const size_t tasks = task_ptr.size() - 1, rows = ptr.size() - 1;
    require(task_ptr.data()[0] == 0 && rises(task_ptr.data(), tasks + 1) && task_ptr.data()[tasks] == int64_t(row.size()) &&
                task.size() == row.size(),
            "task_ptr does not divide the votes");
    for (size_t v = 0; v < row.size(); ++v) require(row.data()[v] < rows, "a vote has a row that does not exist");
    nb::gil_scoped_release release;
    tasks_by_row(task_ptr.data(), int64_t(tasks), row.data(), int64_t(rows), ptr.data(), task.data());
}

}  // namespace

void adjudge::bind_wide(nb::module_& m) {
    using namespace nb::literals;
    m.def("count_cells", &py_count_cells, "ptr"_a.noconvert(), "item"_a.noconvert(), "label"_a.noconvert(), "threads"_a = 1);
    m.def("sum_cells", &py_sum_cells, "ptr"_a.noconvert(), "item"_a.noconvert(), "of_item"_a, "k"_a, "threads"_a = 1);
    m.def("merge_cells", &py_merge_cells, "one"_a, "other"_a, "k"_a, "x"_a, "y"_a, "threads"_a = 1);
    m.def("tasks_by_row", &py_tasks_by_row, "task_ptr"_a.noconvert(), "row"_a.noconvert(), "ptr"_a.noconvert(),
          "task"_a.noconvert());
}
