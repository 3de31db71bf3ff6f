// adjudge._core: the passes over votes, the encoder that makes votes of columns, and the state of a stream of votes.
#include "bind_common.hpp"
#include "online/state.hpp"
#include "passes/crew.hpp"
#include "passes/glad.hpp"
#include "passes/grades.hpp"
#include "passes/messages.hpp"
#include "passes/one_task.hpp"
#include "passes/prepare.hpp"

namespace nb = nanobind;
using namespace adjudge;

// What Python must agree with: a test compares these with the package's own.
static nb::dict constants() {
    nb::dict all;
    all["TIE"] = baseline::kTie;
    all["SAME"] = baseline::kSame;
    all["LOG_UNIT"] = kLogGrid / kRounding;
    all["LIFT"] = kLift;
    all["CLASS_UNIT"] = Units(0x1p-40).class_grid / kRounding;
    all["FLAT"] = kFlat;
    all["NO_SKILL"] = kNoSkill;
    all["SHARD_VOTES"] = kShardVotes;
    all["MOST_SHARD_TASKS"] = kMostShardTasks;
    all["PRIVATE_BYTES"] = kPrivateBytes;
    all["LANES"] = nb::make_tuple(lanes_for(2), lanes_for(3), lanes_for(5), lanes_for(9), lanes_for(17));
    all["SURE"] = kSure;
    all["SHARP"] = kSharp;
    all["B_VARIANCE"] = kBiasVariance;
    all["STRETCH_VARIANCE"] = kStretchVariance;
    all["ONE"] = Online::ONE;
    all["TOGETHER"] = Online::TOGETHER;
    all["RENEW_AFTER"] = kRenewAfter;
    return all;
}

NB_MODULE(_core, m) {
    // Objects that other libraries still hold at interpreter exit are not leaks of ours, so do not warn about them.
    nb::set_leak_warnings(false);
    m.attr("CONSTANTS") = constants();
    bind_passes(m);
    bind_messages(m);
    bind_encode(m);
    bind_online(m);
    bind_light(m);
    bind_ebcc(m);
    bind_careful(m);
    bind_wide(m);
    bind_scores(m);
    bind_ranking(m);
}
