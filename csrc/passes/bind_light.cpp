// Python binding of LA's first pass: checks shapes and codes, releases the GIL, passes raw pointers.
#include <nanobind/stl/optional.h>

#include <optional>

#include "../bind_common.hpp"
#include "light.hpp"
#include "votes.hpp"

namespace nb = nanobind;
using namespace adjudge;

namespace {

template <class T>
const T* pointer(const std::optional<In<T>>& array, size_t size, const char* message) {
    if (!array) return nullptr;
    require(array->size() == size, message);
    return array->data();
}

void py_light_pass(In<int64_t> task_ptr, In<uint32_t> row, In<int64_t> row_worker, In<int32_t> row_label,
                   In<int64_t> order, In<uint64_t> task_key, In<uint64_t> label_hash, Out<double> right,
                   Out<double> total, Out<int32_t> labels, std::optional<In<int32_t>> gold,
                   std::optional<In<double>> favour, std::optional<In<double>> row_weight) {
    require(task_ptr.size() >= 1, "task_ptr is empty");
    const size_t tasks = task_ptr.size() - 1, rows = row_label.size(), k = label_hash.size();
    require(rises(task_ptr.data(), task_ptr.size()) && task_ptr.data()[0] >= 0 &&
                task_ptr.data()[tasks] <= int64_t(row.size()),
            "task_ptr falls, or goes beyond row");
    require(row_worker.size() == rows && order.size() == tasks && task_key.size() == tasks && labels.size() == tasks &&
                right.size() == total.size(),
            "the arrays of light_pass do not have the shapes that the others ask for");
    for (size_t v = 0; v < row.size(); ++v) require(row.data()[v] < rows, "row holds a place beyond the rows");
    for (size_t r = 0; r < rows; ++r) {
        require(row_worker.data()[r] >= 0 && row_worker.data()[r] < int64_t(right.size()), "row_worker holds no worker");
        require(row_label.data()[r] >= 0 && row_label.data()[r] < int64_t(k), "row_label holds no label");
    }
    for (size_t t = 0; t < tasks; ++t)
        require(order.data()[t] >= 0 && order.data()[t] < int64_t(tasks), "order holds no task");
    Light in;
    in.task_ptr = task_ptr.data();
    in.row = row.data();
    in.row_worker = row_worker.data();
    in.row_label = row_label.data();
    in.row_weight = pointer(row_weight, rows, "row_weight has another length than the rows");
    in.order = order.data();
    in.tasks = int64_t(tasks);
    in.k = int(k);
    in.gold = pointer(gold, tasks, "gold has another length than the tasks");
    in.task_key = task_key.data();
    in.label_hash = label_hash.data();
    in.favour = pointer(favour, k, "tie_weights has another length than the labels");
    nb::gil_scoped_release release;
    light_pass(in, right.data(), total.data(), labels.data());
}

}  // namespace

void adjudge::bind_light(nb::module_& m) {
    using namespace nb::literals;
    const auto none = nb::none();
    m.def("light_pass", &py_light_pass, "task_ptr"_a.noconvert(), "row"_a.noconvert(), "row_worker"_a.noconvert(),
          "row_label"_a.noconvert(), "order"_a.noconvert(), "task_key"_a.noconvert(), "label_hash"_a.noconvert(),
          "right"_a.noconvert(), "total"_a.noconvert(), "labels"_a.noconvert(), nb::kw_only(),
          "gold"_a.noconvert() = none, "tie_weights"_a.noconvert() = none, "row_weight"_a.noconvert() = none);
}
