// The Python face of the passes over numeric scores: checks shapes and codes, and releases the interpreter lock.
#include <nanobind/stl/optional.h>

#include <optional>

#include "../bind_common.hpp"
#include "scores.hpp"

namespace nb = nanobind;
using namespace adjudge;

namespace {

using Line = In<double, 2>;
using Share = std::optional<In<double>>;

ScorePass checked(In<int64_t> item_ptr, In<int32_t> judge, In<double> y, Line line, Share share, double centre, double spread,
                  double huber, size_t items, Out<double, 2> sums) {
    static_assert(sizeof(JudgeLine) == kJudgeFields * sizeof(double));
    const size_t scores = judge.size(), judges = line.shape(0);
    require(item_ptr.size() == items + 1 && y.size() == scores && line.shape(1) == kJudgeFields, "arrays of scores do not fit");
    require(!share || share->size() == scores, "share does not fit");
    require(sums.shape(0) == judges && sums.shape(1) == kJudgeSums, "sums do not fit");
    require(item_ptr.data()[0] == 0 && size_t(item_ptr.data()[items]) == scores, "item_ptr does not cover the scores");
    for (size_t i = 0; i < items; ++i) require(item_ptr.data()[i] <= item_ptr.data()[i + 1], "item_ptr falls");
    for (size_t s = 0; s < scores; ++s) require(size_t(uint32_t(judge.data()[s])) < judges, "judge holds no code of a judge");
    return {item_ptr.data(), int64_t(items), judge.data(), y.data(), reinterpret_cast<const JudgeLine*>(line.data()),
            int64_t(judges), share ? share->data() : nullptr, centre, spread, huber};
}

void py_pass(In<int64_t> item_ptr, In<int32_t> judge, In<double> y, Line line, Share share, double centre, double spread,
             double huber, bool robust, Out<double> x, Out<double> variance, Out<double, 2> sums, int threads) {
    require(x.size() == variance.size(), "x and variance do not fit");
    const ScorePass p = checked(item_ptr, judge, y, line, share, centre, spread, huber, x.size(), sums);
    nb::gil_scoped_release release;
    score_pass(p, robust, x.data(), variance.data(), sums.data(), threads);
}

void py_agreement(In<int64_t> item_ptr, In<int32_t> judge, In<double> y, Line line, Share share, double centre, double spread,
                  double huber, In<double> x, In<double> variance, Out<double, 2> sums, int threads) {
    require(x.size() == variance.size(), "x and variance do not fit");
    const ScorePass p = checked(item_ptr, judge, y, line, share, centre, spread, huber, x.size(), sums);
    nb::gil_scoped_release release;
    score_agreement(p, x.data(), variance.data(), sums.data(), threads);
}

}  // namespace

void adjudge::bind_scores(nb::module_& m) {
    using namespace nb::literals;
    m.def("score_pass", &py_pass, "item_ptr"_a.noconvert(), "judge"_a.noconvert(), "y"_a.noconvert(), "line"_a.noconvert(),
          "share"_a.noconvert().none(), nb::kw_only(), "centre"_a, "spread"_a, "huber"_a, "robust"_a, "x"_a.noconvert(),
          "variance"_a.noconvert(), "sums"_a.noconvert(), "threads"_a = 1);
    m.def("score_agreement", &py_agreement, "item_ptr"_a.noconvert(), "judge"_a.noconvert(), "y"_a.noconvert(),
          "line"_a.noconvert(), "share"_a.noconvert().none(), nb::kw_only(), "centre"_a, "spread"_a, "huber"_a,
          "x"_a.noconvert(), "variance"_a.noconvert(), "sums"_a.noconvert(), "threads"_a = 1);
}
