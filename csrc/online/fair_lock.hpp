// A lock for many readers or one writer that is fair to writers.
//
// The system's reader-writer lock may let new readers in forever while a writer waits. Here everybody first passes a
// gate, and a writer holds the gate while it waits for the readers inside to leave.
#pragma once
#include <mutex>
#include <shared_mutex>

namespace adjudge {

class FairLock {
public:
    void lock() {
        const std::lock_guard<std::mutex> turn(gate_);
        inside_.lock();
    }
    bool try_lock() {
        const std::unique_lock<std::mutex> turn(gate_, std::try_to_lock);
        return turn.owns_lock() && inside_.try_lock();
    }
    void unlock() { inside_.unlock(); }

    void lock_shared() {
        const std::lock_guard<std::mutex> turn(gate_);
        inside_.lock_shared();
    }
    bool try_lock_shared() {
        const std::unique_lock<std::mutex> turn(gate_, std::try_to_lock);
        return turn.owns_lock() && inside_.try_lock_shared();
    }
    void unlock_shared() { inside_.unlock_shared(); }

private:
    std::mutex gate_;
    std::shared_mutex inside_;
};

}  // namespace adjudge
