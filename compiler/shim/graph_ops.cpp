// SPDX-License-Identifier: Apache-2.0
//
// The generated code of the ops of dialect `tessera`. Compiled several times, each with another
// GET_OP_DEFS_<N> defined, since all of it at once takes a minute.
// clang-format off
#include "compiler/shim/graph.hpp"

#include "compiler/graph_ops.cpp.inc"
