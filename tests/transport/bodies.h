/* SPDX-License-Identifier: Apache-2.0
 *
 * What every transport must do: one function a test, run by every rank of it.
 */
#ifndef TSR_TESTS_TRANSPORT_BODIES_H
#define TSR_TESTS_TRANSPORT_BODIES_H

#include "tests/transport/ranks.h"

/* `user` of a body. */
typedef struct plan {
    uint32_t seed;
    bool in_heap;
} plan;

enum { HEAP_BYTES = 24 << 20 }; /* what a body needs of a rank's heap, for up to 16 ranks */

#define X(name) int body_##name(tsr_ctx *ctx, tsr_transport *t, void *user);
#include "tests/transport/bodies.def"
#undef X

#endif
