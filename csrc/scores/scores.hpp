// Passes over numeric scores: y = c + bias + slope (x - c) + error, whose NumPy twin is kernels/scores_reference.py.
#pragma once

#include <cstdint>

namespace adjudge {

// What is known of a judge, one line of the table.
struct JudgeLine {
    double bias, slope;
    double noise;   // variance of the error
    double gain;    // E[slope^2]
    double weight;  // 1 / noise; 0 for a judge who says one thing only
};
constexpr int kJudgeFields = 5;
constexpr int kJudgeSums = 6;

struct ScorePass {
    const int64_t* item_ptr;  // IN [items + 1]
    int64_t items;
    const int32_t* judge;  // IN [scores]
    const double* y;       // IN [scores]
    const JudgeLine* line;  // IN [judges]
    int64_t judges;
    const double* share;  // IN [scores] part of a vote that the score counts; null: all of it
    double centre, spread, huber;
};

// x IN/OUT and variance OUT [items]: posterior of every item; sums OUT [judges, 6]: of u, u dx, u (dx^2 + v), u z, u z dx and
// u z^2, with z = y - centre and dx = x - centre. Unless `robust`, all weights u are 1.
void score_pass(const ScorePass& p, bool robust, double* x, double* variance, double* sums, int threads);

// sums OUT [judges, 6]: n, y, o, y^2, o^2 and y o over a judge's scores on items with two scores or more, where o is the item's
// score without this one; y and o are taken from the centre.
void score_agreement(const ScorePass& p, const double* x, const double* variance, double* sums, int threads);

}  // namespace adjudge
