// quorate._core: the passes over votes, the encoder that makes votes of columns, and the state of a stream of votes.
#include "bind_common.hpp"

NB_MODULE(_core, m) {
    quorate::bind_passes(m);
    quorate::bind_encode(m);
    quorate::bind_online(m);
}
