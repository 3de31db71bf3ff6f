// Passes over comparisons: odds = reliability[judge] (strength[left] - strength[right]) + position[judge] + style . effect.
// The NumPy twin is kernels/ranking_reference.py.
#pragma once

#include <cstdint>

namespace adjudge {

struct RankRows {
    const int64_t *left, *right, *judge;  // IN [rows]
    const double *count, *points;         // IN [rows] number of comparisons, and the points of the left item
    const double* style;                  // IN [rows, styles]
    int64_t rows, styles;
};

struct RankModel {
    const double* strength;                  // IN [items]
    const double *reliability, *position;    // IN [judges]
    const double* effect;                    // IN [styles]
    int64_t items, judges;
};

// Where parameters begin in the vector of all; strengths come first, -1: not estimated.
struct RankPlaces {
    int64_t position;  // one for all judges, or one each
    int64_t step;      // from one judge's position to the next: 0 or 1
    int64_t scale;     // of judges
    int64_t style;
    int64_t size;
};

// chance OUT [rows]: that the left item wins; told OUT [judges]: sum of count p (1 - p) gap^2. Returns the log-likelihood.
double rank_chances(const RankRows& r, const RankModel& m, double* chance, double* told, int threads);

// Sums of the residuals plus the terms for the reliabilities' variances: by_item OUT [items] times the slope in the strength,
// by_judge OUT [judges, 2] alone and times the gap, by_style OUT [styles] times the style.
void rank_slopes(const RankRows& r, const RankModel& m, const double* chance, const double* variance, double* by_item,
                 double* by_judge, double* by_style, int threads);

// matrix OUT [size, size]: the information in rows that know their log-odds by weight [rows].
void rank_information(const RankRows& r, const RankModel& m, const RankPlaces& places, const double* weight, double* matrix,
                      int threads);

}  // namespace adjudge
