// Digamma and log-gamma of numbers above 0, together: what Dirichlet posteriors are made of (kernels/special.py).
#pragma once

#include <cmath>

namespace adjudge {

struct GammaLogs {
    double digamma, log_gamma;
};

// Climbs by the recurrence to arguments where Stirling's series has all digits; both share their logarithm.
inline GammaLogs gamma_logs(double x) {
    constexpr double kHalfLogTau = 0.91893853320467274178;
    double reciprocals = 0.0, product = 1.0;
    const bool small = x < 8.0;
    if (small) {
        // The sum of 1 / (x + i) is the derivative of the product over the product: one division for all.
        double slope = 0.0;
        for (int i = 0; i < 8; ++i) {
            slope = slope * (x + i) + product;
            product *= x + i;
        }
        reciprocals = slope / product;
        x += 8.0;
    }
    const double log_x = std::log(x), over = 1.0 / x, y = over * over;
    const double psi = y * (1. / 12 + y * (-1. / 120 + y * (1. / 252 + y * (-1. / 240 + y * (1. / 132 +
                       y * (-691. / 32760 + y * (1. / 12)))))));
    const double gamma = over * (1. / 12 + y * (-1. / 360 + y * (1. / 1260 + y * (-1. / 1680 + y * (1. / 1188 +
                         y * (-691. / 360360 + y * (1. / 156)))))));
    GammaLogs out{log_x - 0.5 * over - psi - reciprocals, (x - 0.5) * log_x - x + kHalfLogTau + gamma};
    if (small) out.log_gamma -= std::log(product);
    return out;
}

}  // namespace adjudge
