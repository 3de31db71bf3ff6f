// What the Python faces of a stream share: how a call takes the stream's lock.
//
// Never wait for the GIL or the stream's lock while holding the other: a caller who cannot have the
// stream at once releases the GIL first, and unlocks the stream before it takes the GIL again.
#pragma once

#include <mutex>
#include <shared_mutex>

#include "../bind_common.hpp"
#include "shared.hpp"

namespace adjudge {

using Reading = std::shared_lock<FairLock>;
using Writing = std::unique_lock<FairLock>;

// Short work: with the interpreter in hand when the stream is free, else without. `work` calls nothing of Python's.
template <class Lock, class Work>
auto briefly(FairLock& mutex, const Work& work) {
    const Lock lock(mutex, std::try_to_lock);
    if (lock.owns_lock()) return work();
    const nanobind::gil_scoped_release released;
    const Lock waited(mutex);
    return work();
}

// Long work: other threads of Python run meanwhile.
template <class Lock, class Work>
auto at_length(FairLock& mutex, const Work& work) {
    const nanobind::gil_scoped_release released;
    const Lock lock(mutex);
    return work();
}

// Readers of one kind of confidence (0, 1, 2: as in measured.hpp) get False if a renewal is due first.
inline Confidence confidence(int kind) {
    require(kind >= 0 && kind <= 2, "kinds of confidence are 0, 1 and 2");
    return Confidence(kind);
}

void bind_votes(nanobind::class_<SharedOnline>& online);  // votes that are answered, and predictions

}  // namespace adjudge
