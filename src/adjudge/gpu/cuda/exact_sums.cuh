// Soft shares in whole units, whose sums do not depend on the order of adding: `adjudge.data.exact` on the device.
#pragma once

#define MAX_DIGITS 36
#define COARSE_DIGITS 10

// x in whole units; `up` units are 1.
__device__ __forceinline__ double whole(double x, double unit, double up) { return rint(x * up) * unit; }

__device__ __forceinline__ double power_of_two(int exponent) { return ldexp(1.0, exponent); }

__device__ __forceinline__ int digits_of(int bits) {
    const int most = (1074 + bits - 1) / bits;  // powers p with p * bits < 1074 + bits
    return most < MAX_DIGITS ? most : MAX_DIGITS;
}

__device__ __forceinline__ double coarse_scale(int i) { return power_of_two(400 - 88 * i); }

__device__ __forceinline__ double fine_scale(int i) { return power_of_two(864 - 48 * (i / 2)); }

// A share in the scale of one sum; the unit is 2 to the power -bits.
__device__ inline double coarse(double share, int bits) {
    const double first = rint(share * power_of_two(bits));
    if (first != 0.0) return first * power_of_two(400 - bits);
    if (share == 0.0) return 0.0;
    const double lifted = share * power_of_two(200);
    const int digits = digits_of(bits) < COARSE_DIGITS ? digits_of(bits) : COARSE_DIGITS;
    for (int i = 1; i < digits; ++i) {
        const int exponent = 200 - (i + 1) * bits;
        const double digit = whole(lifted, power_of_two(exponent), power_of_two(-exponent));
        if (digit != 0.0) return digit * (coarse_scale(i) * power_of_two(-200));
    }
    return 0.0;
}

// A share in the scale of two sums.
__device__ inline void fine(double share, int bits, double& even, double& odd) {
    even = odd = 0.0;
    if (share == 0.0) return;
    const double lifted = share * power_of_two(200);
    const int digits = digits_of(bits);
    for (int i = 0; i < digits; ++i) {
        const int exponent = 200 - (i + 1) * bits;
        const double digit = whole(lifted, power_of_two(exponent), power_of_two(-exponent));
        if (digit == 0.0) continue;
        double next = 0.0;
        if (i + 1 < digits) {
            const int below = exponent - bits;
            next = whole(lifted - digit, power_of_two(below), power_of_two(-below)) * (fine_scale(i + 1) * power_of_two(-200));
        }
        const double found = digit * (fine_scale(i) * power_of_two(-200));
        even = i % 2 ? next : found;
        odd = i % 2 ? found : next;
        return;
    }
}

// A sum of scaled digits brought back to scale: its size shows the power of its digits. `start` and `step` choose the powers.
__device__ inline double restored(double sum, int bits, int digits, int start, int step, bool is_fine) {
    if (sum == 0.0) return 0.0;
    for (int i = start; i < digits; i += step) {
        const double scale = is_fine ? fine_scale(i) : coarse_scale(i);
        if (fabs(sum) >= 0.5 * scale * power_of_two(-(i + 1) * bits)) return sum / scale;
    }
    return 0.0;
}
