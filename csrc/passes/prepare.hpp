// Copies of the model that the kernels read faster than the caller's arrays.
#pragma once

#include "aligned.hpp"
#include "pass.hpp"

namespace adjudge {

// Owns the copies that a Pass points to.
struct Prepared {
    Aligned<double> lines, start;
    Aligned<float> narrow_lines, narrow_start;
    Aligned<uint8_t> cost_lines, cost_start;
};

int lanes_for(int k);  // 2, 4, 8, 16; above that 0

// p OUT: lanes, lines, start, ahead.
void prepare_lines(Pass& p, Prepared& own, int threads);

// More than 16 labels. p OUT: narrow_*, largest, one_sign. False where single precision cannot hold the model.
bool prepare_narrow(Pass& p, Prepared& own, int threads);

// Up to 16 labels. p OUT: narrow_lanes, cost_*, steps, largest. False where whole steps cannot hold the model.
bool prepare_costs(Pass& p, Prepared& own, int threads);

}  // namespace adjudge
