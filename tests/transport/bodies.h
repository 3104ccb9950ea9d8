/* SPDX-License-Identifier: Apache-2.0
 *
 * Conformance tests for every transport: one function per test, run by every rank.
 */
#ifndef TSR_TESTS_TRANSPORT_BODIES_H
#define TSR_TESTS_TRANSPORT_BODIES_H

#include "tests/transport/ranks.h"

/* The `user` argument of a body. */
typedef struct plan {
    uint32_t seed;
    bool in_heap;
} plan;

enum { HEAP_BYTES = 24 << 20 }; /* heap size of a rank that a body needs, for up to 16 ranks */

#define X(name) int body_##name(tsr_ctx *ctx, tsr_transport *t, void *user);
#include "tests/transport/bodies.def"
#undef X

#endif
