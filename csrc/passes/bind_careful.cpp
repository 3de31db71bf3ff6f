// The Python face of the M-steps of auto and of honest confidence: checks shapes and codes, passes raw pointers on.
#include <nanobind/stl/optional.h>

#include <cstring>
#include <optional>

#include "../bind_common.hpp"
#include "../threads.hpp"
#include "aligned.hpp"
#include "careful.hpp"
#include "votes.hpp"

namespace nb = nanobind;
using namespace adjudge;

namespace {

template <class Count>
WorkerCounts<Count> workers_of(const In<Count, 2>& counts, const In<int64_t>& worker_ptr, const In<int32_t>& row_label,
                               int threads) {
    require(worker_ptr.size() >= 1 && worker_ptr.data()[0] == 0 && rises(worker_ptr.data(), worker_ptr.size(), threads) &&
                worker_ptr.data()[worker_ptr.size() - 1] == int64_t(counts.shape(0)),
            "worker_ptr does not divide the rows of counts");
    require(row_label.size() == counts.shape(0), "row_label has another length than counts");
    require(are_codes(row_label.data(), row_label.size(), int64_t(counts.shape(1)), threads), "row_label holds no label");
    WorkerCounts<Count> in;
    in.counts = counts.data();
    in.worker_ptr = worker_ptr.data();
    in.row_label = row_label.data();
    in.workers = int64_t(worker_ptr.size()) - 1;
    in.k = int(counts.shape(1));
    return in;
}

template <class Count>
void py_worker_sums(In<Count, 2> counts, In<int64_t> worker_ptr, In<int32_t> row_label, std::optional<Out<double, 2>> met,
                    std::optional<Out<double, 2>> said, Out<double> right, Out<double> votes, std::optional<Out<double, 2>> given,
                    std::optional<In<double, 2>> kept, double share, int threads) {
    auto in = workers_of<Count>(counts, worker_ptr, row_label, threads);
    const size_t cells = size_t(in.workers) * size_t(in.k);
    require((!met || met->size() == cells) && (!said || said->size() == cells) && right.size() == size_t(in.workers) &&
                votes.size() == right.size() && (!given || given->size() == size_t(in.k) * size_t(in.k)),
            "the sums do not have the shapes that counts ask for");
    require(!kept || kept->size() == counts.size(), "kept does not have the shape of counts");
    if (kept) in.kept = kept->data(), in.kept_share = share, in.own_share = 1.0 - share;
    nb::gil_scoped_release release;
    worker_sums(in, {met ? met->data() : nullptr, said ? said->data() : nullptr, right.data(), votes.data(),
                     given ? given->data() : nullptr}, threads);
}

void py_careful_moments(In<double, 2> met, In<double> right, In<double> votes, In<double> own, Out<double> sums, int threads) {
    const size_t workers = met.shape(0), k = met.shape(1);
    require(right.size() == workers && votes.size() == workers && own.size() == k && sums.size() == 3,
            "the sums do not have the shapes that met asks for");
    nb::gil_scoped_release release;
    careful_moments(met.data(), right.data(), votes.data(), own.data(), int64_t(workers), int(k), sums.data(), threads);
}

template <class Count>
void py_blend_counts(In<double, 2> one, In<Count, 2> other, double x, double y, Out<double, 2> out, int threads) {
    require(one.size() == other.size() && out.size() == one.size(), "counts do not have the same shape");
    nb::gil_scoped_release release;
    blend_counts(one.data(), other.data(), x, y, int64_t(one.size()), out.data(), threads);
}

template <class Count>
void py_careful_table(In<Count, 2> counts, In<int64_t> worker_ptr, In<int32_t> row_label, In<double, 2> met,
                      std::optional<In<double, 2>> said, In<double> right, In<double> own, In<double, 2> errors, In<uint8_t> exists,
                      double kappa, double weight, double taste_power, double most_own, Out<double, 2> table, int threads) {
    const auto in = workers_of<Count>(counts, worker_ptr, row_label, threads);
    const size_t k = size_t(in.k), cells = size_t(in.workers) * k;
    require(met.size() == cells && (taste_power == 0.0 || (said && said->size() == cells)) && right.size() == size_t(in.workers) && own.size() == k &&
                errors.size() == k * k && exists.size() == k && table.size() == counts.size(),
            "the arrays of careful_table do not have the shapes that counts ask for");
    const Careful shared{met.data(), said ? said->data() : nullptr, right.data(), own.data(), errors.data(), exists.data(),
                         kappa,      weight,      taste_power,  most_own};
    nb::gil_scoped_release release;
    careful_table(in, shared, table.data(), threads);
}

template <class Count>
void py_honest_lines(In<Count, 2> counts, In<int64_t> worker_ptr, In<int32_t> row_label, In<double, 2> lent,
                     In<uint8_t> exists, double in_all, Out<double, 3> both, int threads) {
    const auto in = workers_of<Count>(counts, worker_ptr, row_label, threads);
    const size_t k = size_t(in.k);
    require(lent.size() == k * k && exists.size() == k && both.size() == 2 * counts.size(),
            "the arrays of honest_lines do not have the shapes that counts ask for");
    nb::gil_scoped_release release;
    honest_lines(in, lent.data(), exists.data(), in_all, both.data(), threads);
}

template <class Count>
void bind_for(nb::module_& m) {
    using namespace nb::literals;
#define ADJUDGE_WORKERS "counts"_a.noconvert(), "worker_ptr"_a.noconvert(), "row_label"_a.noconvert()
    m.def("worker_sums", &py_worker_sums<Count>, ADJUDGE_WORKERS, "met"_a.noconvert().none(),
          "said"_a.noconvert().none(), "right"_a.noconvert(), "votes"_a.noconvert(), "given"_a.noconvert().none(),
          "kept"_a.noconvert() = nb::none(), "share"_a = 0.0, "threads"_a = 1);
    m.def("blend_counts", &py_blend_counts<Count>, "one"_a.noconvert(), "other"_a.noconvert(), "x"_a, "y"_a, "out"_a.noconvert(),
          "threads"_a = 1);
    m.def("careful_table", &py_careful_table<Count>, ADJUDGE_WORKERS, "met"_a.noconvert(), "said"_a.noconvert().none(),
          "right"_a.noconvert(), "own"_a.noconvert(), "errors"_a.noconvert(), "exists"_a.noconvert(), "kappa"_a, "weight"_a,
          "taste_power"_a, "most_own"_a, "table"_a.noconvert(), "threads"_a = 1);
    m.def("honest_lines", &py_honest_lines<Count>, ADJUDGE_WORKERS, "lent"_a.noconvert(), "exists"_a.noconvert(), "in_all"_a,
          "both"_a.noconvert(), "threads"_a = 1);
#undef ADJUDGE_WORKERS
}

}  // namespace

// A large array of bytes, cleared or not, in a block that the steps of a fit hand on.
static nb::object room(size_t bytes, bool zero, int threads) {
    auto* const kept = new Aligned<uint8_t>(allocate<uint8_t>(bytes));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<Aligned<uint8_t>*>(p); });
    if (zero) {
        nb::gil_scoped_release release;
        share_range(threads, int64_t(bytes), 1 << 20, [&](int64_t begin, int64_t end) { std::memset(kept->get() + begin, 0, size_t(end - begin)); });
    }
    return nb::cast(Array<uint8_t>(kept->get(), {bytes}, owner));
}

// While one of these is entered, large blocks are reused.
struct BlockReuse {};

void adjudge::bind_careful(nb::module_& m) {
    bind_for<int64_t>(m);
    bind_for<double>(m);
    using namespace nb::literals;
    m.def("careful_moments", &py_careful_moments, "met"_a.noconvert(), "right"_a.noconvert(), "votes"_a.noconvert(),
          "own"_a.noconvert(), "sums"_a.noconvert(), "threads"_a = 1);
    m.def("room", &room, "bytes"_a, "zero"_a = false, "threads"_a = 1);
    nb::class_<BlockReuse>(m, "BlockReuse")
        .def(nb::init<>())
        .def("__enter__", [](BlockReuse&) { begin_reuse(); })
        .def("__exit__", [](BlockReuse&, nb::args) { end_reuse(); });
}
