// Labels that are known for certain, by the id of the task: of tasks that have votes, and of those that have none yet.
#pragma once
#include <algorithm>
#include <cstdint>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

#include "../encode/text_dictionary.hpp"

namespace adjudge {

class Golds {
public:
    size_t size() const { return label_.size() - gone_; }

    // The label of a task; -1 if none is known.
    int32_t of(std::string_view task) const {
        const uint32_t code = label_.empty() ? NONE : ids_.find({task.data(), int64_t(task.size())});
        return code == NONE ? -1 : label_[code];
    }

    // Makes room for the label of a task, so that `set` cannot fail; changes nothing that `of` says.
    void expect(std::string_view task) {
        const uint32_t code = ids_.code({task.data(), int64_t(task.size())});
        if (code < label_.size()) return;
        try {
            label_.push_back(-1);
        } catch (...) {
            ids_.truncate(code);
            throw;
        }
        ++gone_;
    }
    // The label of a task, which was expected or has one; -1 takes it back.
    void set(std::string_view task, int32_t label) noexcept {
        int32_t& now = label_[ids_.find({task.data(), int64_t(task.size())})];
        gone_ += size_t(now >= 0) - size_t(label >= 0);
        now = label;
        if (gone_ > kMostGone && gone_ > size()) compact();
    }

    // All (task, label) pairs in byte order: the same gold gives the same list, independent of its history.
    std::vector<std::pair<std::string_view, int32_t>> sorted() const {
        std::vector<std::pair<std::string_view, int32_t>> out;
        out.reserve(size());
        for (size_t i = 0; i < label_.size(); ++i)
            if (label_[i] >= 0) out.emplace_back(text(i), label_[i]);
        std::sort(out.begin(), out.end());
        return out;
    }

private:
    static constexpr size_t kMostGone = 1000;  // whose room is not worth the work of giving it back

    std::string_view text(size_t code) const {
        const int64_t* at = ids_.offsets().data() + code;
        return {ids_.data().data() + at[0], size_t(at[1] - at[0])};
    }
    void compact() noexcept {
        try {
            TextDictionary ids;
            std::vector<int32_t> label;
            label.reserve(size());
            for (size_t i = 0; i < label_.size(); ++i) {
                if (label_[i] < 0) continue;
                ids.code({text(i).data(), int64_t(text(i).size())});
                label.push_back(label_[i]);
            }
            std::swap(ids_, ids);
            std::swap(label_, label);
            gone_ = 0;
        } catch (const std::bad_alloc&) {  // then they take room for longer
        }
    }

    TextDictionary ids_;
    std::vector<int32_t> label_;  // [ids], -1: taken back
    size_t gone_ = 0;
};

}  // namespace adjudge
