// The Python face of the passes over comparisons: checks shapes and codes, and releases the interpreter lock.
#include "../bind_common.hpp"
#include "ranking.hpp"

namespace nb = nanobind;
using namespace adjudge;

namespace {

struct Checked {
    RankRows rows;
    RankModel model;
};

// Codes are checked with every call: a pass costs far more.
Checked checked(In<int64_t> left, In<int64_t> right, In<int64_t> judge, In<double> count, In<double> points, In<double, 2> style,
                In<double> strength, In<double> reliability, In<double> position, In<double> effect) {
    const size_t rows = left.size(), items = strength.size(), judges = reliability.size();
    require(right.size() == rows && judge.size() == rows && count.size() == rows && points.size() == rows &&
                style.shape(0) == rows,
            "arrays of comparisons do not fit");
    require(position.size() == judges && effect.size() == style.shape(1), "arrays of the model do not fit");
    bool fits = true;
    for (size_t n = 0; n < rows; ++n)
        fits &= size_t(left.data()[n]) < items && size_t(right.data()[n]) < items && size_t(judge.data()[n]) < judges;
    require(fits, "a comparison holds a code beyond the items or judges");
    return {{left.data(), right.data(), judge.data(), count.data(), points.data(), style.data(), int64_t(rows),
             int64_t(style.shape(1))},
            {strength.data(), reliability.data(), position.data(), effect.data(), int64_t(items), int64_t(judges)}};
}

double py_chances(In<int64_t> left, In<int64_t> right, In<int64_t> judge, In<double> count, In<double> points,
                  In<double, 2> style, In<double> strength, In<double> reliability, In<double> position, In<double> effect,
                  Out<double> chance, Out<double> told, int threads) {
    const Checked c = checked(left, right, judge, count, points, style, strength, reliability, position, effect);
    require(chance.size() == left.size() && told.size() == reliability.size(), "chance or told does not fit");
    nb::gil_scoped_release release;
    return rank_chances(c.rows, c.model, chance.data(), told.data(), threads);
}

void py_slopes(In<int64_t> left, In<int64_t> right, In<int64_t> judge, In<double> count, In<double> points, In<double, 2> style,
               In<double> strength, In<double> reliability, In<double> position, In<double> effect, In<double> chance,
               In<double> variance, Out<double> by_item, Out<double, 2> by_judge, Out<double> by_style, int threads) {
    const Checked c = checked(left, right, judge, count, points, style, strength, reliability, position, effect);
    require(chance.size() == left.size() && variance.size() == reliability.size(), "chance or variance does not fit");
    require(by_item.size() == strength.size() && by_judge.shape(0) == reliability.size() && by_judge.shape(1) == 2 &&
                by_style.size() == effect.size(),
            "sums do not fit");
    nb::gil_scoped_release release;
    rank_slopes(c.rows, c.model, chance.data(), variance.data(), by_item.data(), by_judge.data(), by_style.data(), threads);
}

void py_information(In<int64_t> left, In<int64_t> right, In<int64_t> judge, In<double> count, In<double> points,
                    In<double, 2> style, In<double> strength, In<double> reliability, In<double> position, In<double> effect,
                    In<double> weight, int64_t at_position, int64_t step, int64_t at_scale, int64_t at_style,
                    Out<double, 2> matrix, int threads) {
    const Checked c = checked(left, right, judge, count, points, style, strength, reliability, position, effect);
    const int64_t size = int64_t(matrix.shape(0)), judges = c.model.judges;
    require(weight.size() == left.size() && int64_t(matrix.shape(1)) == size, "weight or matrix does not fit");
    require((step == 0 || step == 1) && c.model.items <= size && at_position + (step ? judges : 1) <= size &&
                at_scale + judges * (at_scale >= 0) <= size && (c.rows.styles == 0 || at_style >= 0) &&
                at_style + c.rows.styles * (at_style >= 0) <= size && at_position >= -1 && at_scale >= -1 && at_style >= -1,
            "the matrix has no room for a parameter");
    nb::gil_scoped_release release;
    rank_information(c.rows, c.model, {at_position, step, at_scale, at_style, size}, weight.data(), matrix.data(), threads);
}

}  // namespace

void adjudge::bind_ranking(nb::module_& m) {
    using namespace nb::literals;
    m.def("rank_chances", &py_chances, "left"_a.noconvert(), "right"_a.noconvert(), "judge"_a.noconvert(),
          "count"_a.noconvert(), "points"_a.noconvert(), "style"_a.noconvert(), "strength"_a.noconvert(),
          "reliability"_a.noconvert(), "position"_a.noconvert(), "effect"_a.noconvert(), nb::kw_only(),
          "chance"_a.noconvert(), "told"_a.noconvert(), "threads"_a = 1);
    m.def("rank_slopes", &py_slopes, "left"_a.noconvert(), "right"_a.noconvert(), "judge"_a.noconvert(), "count"_a.noconvert(),
          "points"_a.noconvert(), "style"_a.noconvert(), "strength"_a.noconvert(), "reliability"_a.noconvert(),
          "position"_a.noconvert(), "effect"_a.noconvert(), nb::kw_only(), "chance"_a.noconvert(), "variance"_a.noconvert(),
          "by_item"_a.noconvert(), "by_judge"_a.noconvert(), "by_style"_a.noconvert(), "threads"_a = 1);
    m.def("rank_information", &py_information, "left"_a.noconvert(), "right"_a.noconvert(), "judge"_a.noconvert(),
          "count"_a.noconvert(), "points"_a.noconvert(), "style"_a.noconvert(), "strength"_a.noconvert(),
          "reliability"_a.noconvert(), "position"_a.noconvert(), "effect"_a.noconvert(), nb::kw_only(), "weight"_a.noconvert(),
          "at_position"_a, "step"_a, "at_scale"_a, "at_style"_a, "matrix"_a.noconvert(), "threads"_a = 1);
}
