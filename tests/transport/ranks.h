/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks of a test: processes or threads that each run one function, on one of the transports.
 */
#ifndef TSR_TESTS_TRANSPORT_RANKS_H
#define TSR_TESTS_TRANSPORT_RANKS_H

#include "runtime/transport/collective.h"
#include "runtime/transport/shared.h"

#include <stdio.h>

/* The way to run ranks. */
typedef enum ranks_kind {
#define X(name, text) RANKS_##name,
#include "tests/transport/ranks.def"
#undef X
    RANKS_KIND_COUNT
} ranks_kind;
extern const char *const ranks_kind_names[RANKS_KIND_COUNT];

/* The function of one rank. Returns 0 on success; otherwise prints the reason to standard error. */
typedef int (*ranks_body)(tsr_ctx *ctx, tsr_transport *t, void *user);

typedef struct ranks_options {
    ranks_kind kind;
    uint32_t count;
    uint64_t heap_bytes, deadline_ns;
} ranks_options;

/* A TCP port of the loopback interface that is free now. */
uint16_t ranks_free_port(void);

/* The number of ranks whose body did not return 0. */
int ranks_run(const ranks_options *options, ranks_body body, void *user);

/* Allocates memory for a test: from the heap of the transport if it has one and `in_heap`,
 * otherwise not. */
void *ranks_memory(tsr_transport *t, size_t size_bytes, bool in_heap);
void ranks_memory_free(tsr_transport *t, void *memory);

/* Used in bodies: prints a line and returns 1 if the condition is false. */
#define EXPECT(condition, ...)                                                                     \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: rank %u: ", __FILE__, __LINE__, t->rank);                      \
            fprintf(stderr, __VA_ARGS__);                                                          \
            fputc('\n', stderr);                                                                   \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)
#define EXPECT_OK(call)                                                                            \
    do {                                                                                           \
        tsr_result r_ = (call);                                                                    \
        EXPECT(r_.code == TSR_OK, "%s: %s", #call, ctx->error.text);                               \
    } while (0)

#endif
