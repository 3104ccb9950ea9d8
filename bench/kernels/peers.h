/* SPDX-License-Identifier: Apache-2.0
 *
 * Libraries to compare with, opened at run time if they are installed. Tessera itself does not use
 * them.
 */
#ifndef TSR_BENCH_PEERS_H
#define TSR_BENCH_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PEERS_MAX = 40 };

/* Computes C = A B; all are dense and row-major. */
typedef struct peer_matmul {
    size_t m, n, k;
    const float *a, *b;
    float *c;
    /* The same numbers as bf16, and memory for the result; NULL if f32 is measured. */
    const uint16_t *a_narrow, *b_narrow;
    uint16_t *c_narrow;
} peer_matmul;

typedef struct peer {
    char name[64];
    bool prepacks;  /* B is converted to the library's own format before `run` */
    bool is_narrow; /* accepts only bf16, and writes c_narrow */
    /* Prepares one problem; returns NULL if the library does not support it. Borrows the struct and
     * its arrays. */
    void *(*prepare)(const struct peer *self, const peer_matmul *problem);
    void (*run)(void *prepared);
    void (*release)(void *prepared);
    void (*sgemm)(const char *, const char *, const int *, const int *, const int *, const float *,
                  const float *, const int *, const float *, const int *, const float *, float *,
                  const int *); /* only for a BLAS */
} peer;

/* Appends the installed libraries to `peers` and returns their number. `folder` is for copies of
 * libraries: one for each core type, because the type is chosen when a library is loaded. */
size_t peers_open_blas(const char *folder, unsigned threads, peer *peers, size_t capacity);
/* Defined in the module peers_dnnl, which is built if oneDNN's headers are installed. */
size_t peers_open_dnnl(peer *peers, size_t capacity);

#endif
