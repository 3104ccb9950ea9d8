// SPDX-License-Identifier: Apache-2.0
//
// The generated code of the ops of dialect `tessera`. It is compiled several times, each time with
// another GET_OP_DEFS_<N> defined, because compiling all ops at once takes a minute.
// clang-format off
#include "compiler/shim/graph.hpp"

#include "compiler/graph_ops.cpp.inc"
