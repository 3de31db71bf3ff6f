// How Python gives a table in parts, and the check that its codes and shapes fit.
#pragma once

#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <optional>
#include <tuple>

#include "../bind_common.hpp"
#include "votes.hpp"
#include "wide.hpp"

namespace adjudge {

// by_worker, by_given, by_row; row_worker, row_label; own_ptr, own_label, own, without; floor: see `Wide`.
using WideArrays = std::tuple<In<double, 2>, In<double, 2>, std::optional<In<double>>, In<int64_t>, In<int32_t>, In<int64_t>,
                              In<int32_t>, In<double>, std::optional<In<double>>, double>;

// Raises unless ptr divides so many things, and the labels are those of k.
inline void check_cells(const In<int64_t>& ptr, const In<int32_t>& label, size_t groups, size_t k) {
    require(ptr.size() == groups + 1 && ptr.data()[0] == 0 && rises(ptr.data(), ptr.size()) &&
                ptr.data()[groups] == int64_t(label.size()),
            "the pointers of cells do not divide them");
    for (size_t i = 0; i < label.size(); ++i)
        require(label.data()[i] >= 0 && size_t(label.data()[i]) < k, "a cell has a label that does not exist");
}

inline Wide wide_of(const WideArrays& arrays, size_t rows, size_t k) {
    const auto& [by_worker, by_given, by_row, row_worker, row_label, own_ptr, own_label, own, without, floor] = arrays;
    require(by_worker.shape(1) == k && by_given.shape(0) == k && by_given.shape(1) == k && (!by_row || by_row->size() == rows) &&
                row_worker.size() == rows && row_label.size() == rows && own.size() == own_label.size() &&
                (!without || without->size() == own.size()),
            "the parts of a table do not have the shapes that the other arrays ask for");
    check_cells(own_ptr, own_label, rows, k);
    for (size_t r = 0; r < rows; ++r)
        require(row_worker.data()[r] >= 0 && size_t(row_worker.data()[r]) < by_worker.shape(0) && row_label.data()[r] >= 0 &&
                    size_t(row_label.data()[r]) < k,
                "a row of a table has a worker or a label that does not exist");
    return {by_worker.data(),   by_given.data(),  by_row ? by_row->data() : nullptr,   row_worker.data(), row_label.data(),
            own_ptr.data(),     own_label.data(), own.data(), without ? without->data() : nullptr, floor};
}

}  // namespace adjudge
