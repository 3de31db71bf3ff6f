// Loops over labels, unrolled where there are few.
#pragma once

#include <type_traits>

namespace adjudge {

// Calls act(K), where K is k as a constant if labels are few, and 0 otherwise.
template <class Act>
void with_labels(int k, const Act& act) {
    switch (k) {
        case 2: return act(std::integral_constant<int, 2>{});
        case 3: return act(std::integral_constant<int, 3>{});
        case 4: return act(std::integral_constant<int, 4>{});
        case 5: return act(std::integral_constant<int, 5>{});
        default: act(std::integral_constant<int, 0>{});
    }
}

}  // namespace adjudge
