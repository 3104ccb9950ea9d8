/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs each body with each way to run ranks on this host.
 */
#include "tests/transport/bodies.h"

#include <criterion/criterion.h>

static void run_on_all(const char *name, ranks_body body) {
    for (int kind = 0; kind < RANKS_KIND_COUNT; kind++)
        for (uint32_t count = 1; count <= 8; count += count < 3 ? 1 : count == 3 ? 2 : 3) {
            if (kind == RANKS_LOOPBACK && count > 1) continue;
            /* Only shared memory has a heap. */
            for (int in_heap = 0; in_heap < (kind == RANKS_TCP ? 1 : 2); in_heap++) {
                plan p = {.seed = 100 * count + (uint32_t)in_heap, .in_heap = in_heap};
                ranks_options options = {(ranks_kind)kind, count, HEAP_BYTES,
                                         UINT64_C(60) * 1000000000u};
                cr_expect_eq(ranks_run(&options, body, &p), 0, "%s, %u ranks as %s, heap %d", name,
                             count, ranks_kind_names[kind], in_heap);
            }
        }
}

#define X(name)                                                                                    \
    Test(transport, name) { run_on_all(#name, body_##name); }
#include "tests/transport/bodies.def"
#undef X
