// The passes that Python calls.
#pragma once
#include "../shared/parallel.h"
#include "call.h"

namespace regard {

Outcome observe(const Call& call, const Kept& kept, Progress& progress);
Outcome look(const Call& call, const View& view, Progress& progress);
Outcome count(const Call& call, const Received& received, Progress& progress);

}  // namespace regard
